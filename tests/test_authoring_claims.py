"""docs/claims.md says what the boxes in the chapters say, and `book.py check` what they lack."""

import mini_book
import pytest
from mini_book import edit

from authoring import claims
from authoring.sources import BookError

CHAPTER = "notebooks/01_double.py"
BOX = '# > **C1 · holds: Twice is 3.0.** *The lectures* (deck 2, "Doubling"): doubling doubles.'
QUESTION = """
# %% [markdown]
# ## 2. Halves
#
# ### Is half of it less? (E1)
#
# > a quotation, and no box
#
# > **E1 · Yes, above 0.** *Our question*: is half
# > of it less?
# >
# > *Measured*: 0.75 from 1.5.
"""


@pytest.fixture
def book(tmp_path):
    root = mini_book.write(tmp_path)
    claims.write(root)
    return root


def add(root, text):
    path = root / CHAPTER
    path.write_text(path.read_text(encoding="utf-8") + text, encoding="utf-8")


def problem(root):
    [found] = claims.problems(root)
    return found


def row(root, number):
    [line] = [line for line in claims.page(root).split("\n") if line.startswith(f"| **{number}**")]
    return line


def test_a_claim_is_a_row_with_a_link_to_its_section(book):
    assert list(claims.problems(book)) == []
    assert row(book, "C1") == (
        "| **C1** | doubling doubles. | **holds**: Twice is 3.0. "
        "| [01&nbsp;§&nbsp;1](../notebooks/01_double.ipynb#1.-Doubling-(C1)) |"
    )
    assert "Of 1 claims 1 hold as they stand, 0 hold under a condition, and 0 did" in claims.page(
        book
    )


def test_a_question_of_our_own_is_counted_by_its_chapter(book):
    add(book, QUESTION)
    assert row(book, "E1") == (
        "| **E1**&nbsp;of&nbsp;01 | is half of it less? | Yes, above 0. "
        "| [01&nbsp;§&nbsp;2](../notebooks/01_double.ipynb#Is-half-of-it-less?-(E1)) |"
    )


def test_claims_stand_in_the_order_of_their_numbers_and_gaps_are_named(book):
    for number in ("C10", "C4"):
        box = BOX.replace("C1", number) + "\n# >\n# > *Measured*: 4.\n"
        add(book, f"\n# %% [markdown]\n# ### More ({number})\n#\n{box}")
    text = claims.page(book)
    assert text.index("| **C1** |") < text.index("| **C4** |") < text.index("| **C10** |")
    assert "planned: C2, C3, C5, C6, C7, C8, C9." in text


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        (
            "C1 · holds: T",
            "C1: holds: T",
            "has another form than this: write > **C1 · holds: Sentence",
        ),
        ("holds: Twice is", "holds: Twice is far" + 130 * "r" + " above", "at most 140 characters"),
        ("C1 · holds: T", "C1 · T", "begins with one of"),
        ("doubling doubles.", "doubling | doubles.", "has another form than this"),
        ("*Measured*: 3.0", "Measured: 3.0", "has another form than this"),
        ("deck 2", "deck 6", "is not of the form"),
        ("deck 2, ", "deck 2; ", "is not of the form"),
        ("**C1 · holds", "**C1 · perhaps", "begins with one of"),
        ("**C1 · holds", "**C2 · holds", "move it to the section with (C2)"),
        ("**C1 · holds", "**E1 · holds", "C stands before"),
    ],
)
def test_a_box_of_another_form_is_refused(book, old, new, message):
    edit(book / CHAPTER, old, new)
    with pytest.raises(BookError) as error:
        claims.page(book)
    assert message in str(error.value)
    assert CHAPTER in str(error.value)


def test_a_claim_in_a_heading_needs_a_box(book):
    add(book, "\n# %% [markdown]\n# ### Again (C2)\n")
    assert "'Again (C2)' has no box: end its section with one; write > **C1 ·" in problem(book)


def test_a_claim_has_one_box_in_the_book(book):
    other = book / "notebooks/02_again.py"
    other.write_text((book / CHAPTER).read_text(encoding="utf-8"), encoding="utf-8")
    claims.write(book)
    told = (
        f"C1 has a box in {book / CHAPTER} already: keep one of the two, or give one another number"
    )
    assert problem(book).endswith(told)


def test_two_chapters_may_have_the_same_question_but_one_chapter_has_it_once(book):
    add(book, QUESTION)
    other = book / "notebooks/02_again.py"
    other.write_text(QUESTION, encoding="utf-8")
    claims.write(book)
    assert list(claims.problems(book)) == []
    add(book, QUESTION)
    claims.write(book)
    assert "E1 has a box" in problem(book)


def test_a_page_that_is_out_of_step_is_told(book):
    edit(book / CHAPTER, "Twice is 3.0", "Twice is 4.0")
    assert "is not what the boxes say: run: python book.py build NN" in problem(book)
    (book / claims.PAGE).unlink()
    assert "is not what the boxes say" in problem(book)
