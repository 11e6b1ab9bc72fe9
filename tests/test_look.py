"""The window into attention: its numbers are the model's, and the page shows and chooses them."""

import html
import json
import re
import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest

import minitorch as mt
from authoring import window
from minitorch import nn
from textbook.chapter_05 import SelfAttention
from textbook.chapter_07 import causal_mask
from textbook.chapter_10 import OneStack, Transformer
from textbook.data import Vocabulary, number_pairs
from textbook.look import View, look

ROOT = Path(__file__).resolve().parents[1]

SOURCE, TARGET = "two hundred and three".split(), "<s> zwei hundert drei".split()
WORDS = Vocabulary(SOURCE + TARGET, ["<pad>", "<s>"])


@pytest.fixture(scope="module")
def translator():
    mt.manual_seed(0)
    return Transformer(len(WORDS), width=16, heads=4, hidden=32, layers=2, dropout=0.1)


def numbers_of(words):
    return WORDS.encode(words).unsqueeze(0)


def looks_of(attentions, model, *inputs):
    """The weights (h, T, n) that chapter 06's ``look`` gives for each of these attentions."""
    found = []

    def keep(attention, inputs, output):
        found.append(attention.look(*inputs)[1][0].detach().numpy())

    hooks = [attention.register_forward_hook(keep) for attention in attentions]
    model.eval()
    model(*inputs)
    for hook in hooks:
        hook.remove()
    return found


@pytest.mark.parametrize("length", [2, 4])  # the second is as long as the source
def test_weights_are_those_of_the_chapter(translator, length):
    said = TARGET[:length]
    translator.train()
    view = look(translator, SOURCE, said, WORDS)
    assert translator.training
    for name, attentions, shape in (
        ("self-attention, source", [block.attention for block in translator.encoder], (4, 4, 4)),
        (
            "self-attention, target",
            [block.attention for block in translator.decoder],
            (4, length, length),
        ),
        ("cross-attention", [block.cross for block in translator.decoder], (4, length, 4)),
    ):
        expected = looks_of(attentions, translator, numbers_of(SOURCE), numbers_of(said))
        for own, other in zip(view.stacks[name].layers, expected, strict=True):
            assert own.shape == shape
            np.testing.assert_allclose(own, other, atol=1e-6)
    assert (np.triu(view.stacks["self-attention, target"].layers[0], 1) == 0).all()


def test_any_way_to_attend_is_heard():
    mt.manual_seed(0)
    x = mt.randn(1, 4, 8)
    by_hand, module = SelfAttention(8), nn.MultiheadAttention(8, 2, batch_first=True)
    for model, heads in (
        (lambda words: by_hand(x, causal_mask(4)), 1),
        (lambda words: module(x, x, x, attn_mask=~causal_mask(4)), 2),
        (lambda words: module(x, x, x, attn_mask=~causal_mask(4), need_weights=False), 2),
    ):
        [layer] = look(model, SOURCE).stacks["self-attention, source"].layers
        assert layer.shape == (heads, 4, 4)
        np.testing.assert_allclose(layer.sum(-1), 1, atol=1e-6)
        assert (np.triu(layer, 1) == 0).all()


def test_what_cannot_be_shown_is_refused(translator):
    with pytest.raises(ValueError, match="no attention"):
        look(lambda words: None, SOURCE)
    x = mt.randn(1, 3, 8)
    with pytest.raises(ValueError, match="3 queries to 3 keys does not fit the words"):
        look(lambda words: SelfAttention(8)(x), SOURCE)


def test_the_page_needs_nothing_else_and_is_small(translator, tmp_path):
    view = look(translator, SOURCE, TARGET, WORDS)
    view.save(tmp_path / "look.html")
    page = (tmp_path / "look.html").read_text("utf-8")
    assert page == view.page() and len(page) < 25_000
    assert not re.search(r"https?:|\ssrc=|<link|@import|fetch\(", page)
    bundle = view._repr_mimebundle_()
    assert bundle["text/html"].startswith("<iframe title=") and "<main>" not in bundle["text/html"]


@pytest.mark.parametrize("number", ["04", "06", "07", "10"])
def test_stored_views_are_the_page_as_it_is_now(number):
    [path] = (ROOT / "notebooks").glob(f"{number}_*.ipynb")
    shown = [
        "".join(output["data"]["text/html"])
        for cell in json.loads(path.read_text("utf-8"))["cells"]
        for output in cell.get("outputs", ())
        if "<iframe" in "".join(output.get("data", {}).get("text/html", ""))
    ]
    assert len(shown) == 1 and len(shown[0]) < 60_000
    stored = html.unescape(re.search(r'srcdoc="([^"]*)"', shown[0])[1])
    data = r'(?<=id="data">).*?(?=</script>)'
    empty = View({}).page()
    assert re.sub(data, "", stored) == re.sub(data, "", empty), f"python book.py build {number}"


CHROMIUM = shutil.which("chromium") or shutil.which("google-chrome") or shutil.which("chrome")
in_browser = pytest.mark.skipif(CHROMIUM is None, reason="needs Chromium")
FIRST = """<script>
const faults = [];
onerror = (message) => { faults.push(message); };
onunhandledrejection = (event) => faults.push(String(event.reason));
console.error = (...words) => faults.push(words.join(" "));
</script>"""
LAST = """<script>
const find = (selector) => document.querySelector(selector);
const press = (selector, key) => find(selector).dispatchEvent(
  new KeyboardEvent("keydown", { key, bubbles: true, cancelable: true }));
const point = (selector) => find(selector).dispatchEvent(
  new PointerEvent("pointerover", { bubbles: true }));
const click = (selector) => find(selector).dispatchEvent(
  new MouseEvent("click", { bubbles: true }));
addEventListener("load", async () => {
  const found = await (async () => { STEPS })();
  document.documentElement.dataset.found = JSON.stringify({ found, faults });
});
</script>"""


def in_chromium(page, steps, tmp_path):
    """What these steps, JavaScript that returns something, find in the page."""
    path = tmp_path / "page.html"
    path.write_text(FIRST + page + LAST.replace("STEPS", steps), encoding="utf-8")
    options = ["--headless", "--no-sandbox", "--disable-gpu", "--virtual-time-budget=5000"]
    command = [CHROMIUM, *options, "--dump-dom", path.as_uri()]
    dumped = subprocess.run(command, capture_output=True, text=True, timeout=120).stdout
    told = json.loads(html.unescape(re.search(r'data-found="([^"]*)"', dumped)[1]))
    assert told["faults"] == []
    return told["found"]


@in_browser
def test_pointing_and_keys_choose_and_the_numbers_are_the_models(translator, tmp_path):
    view = look(translator, SOURCE, TARGET[:3], WORDS)
    steps = """
      choose({ layer: 0, head: 0 });
      const told = [find("#said").textContent.trim().replace(/\\s+/g, " ")];
      const tell = () => told.push([{ ...here }, find("#number").textContent]);
      point("#map rect[data-query='2'][data-key='1']"); tell();
      click("#maps svg[data-layer='1'][data-head='2']"); tell();
      press("#maps", "ArrowUp"); press("#maps", "ArrowRight"); press("#maps", "ArrowRight"); tell();
      press("#head", "ArrowUp"); press("#head", "ArrowRight"); tell();
      click("#stacks [data-stack='0']"); tell();
      point("#lines text[data-key='3']"); tell();
      return told;
    """
    first, *rest = in_chromium(view.page(), steps, tmp_path)
    assert re.fullmatch(r"layer 1, head 1: zwei looks at \w+ with weight 0\.\d{3}", first)
    places = [tuple(here[name] for name in ("stack", "layer", "head", "query")) for here, _ in rest]
    assert places == [
        (2, 0, 0, 2),
        (2, 1, 2, 2),
        (2, 0, 3, 2),
        (2, 0, 3, 1),
        (0, 0, 3, 1),
        (0, 0, 3, 1),
    ]
    assert rest[0][0]["key"] == 1 and rest[-1][0]["key"] == 3
    stacks = list(view.stacks.values())
    for here, number in rest:
        layer = stacks[here["stack"]].layers[here["layer"]]
        assert abs(layer[here["head"], here["query"], here["key"]] - float(number)) < 6e-4


@mt.no_grad()
def next_token(model, *sequences, temperature=1.0, off=None):
    """Probabilities (T, V) of the next token; ``off`` names an attention and a silent head."""
    if off is not None:
        attention, head = off
        size = attention.out.weight.shape[1] // attention.heads
        kept = attention.out.weight.clone()
        attention.out.weight[:, head * size : (head + 1) * size] = 0
    scores = model.eval()(*map(numbers_of, sequences))
    if off is not None:
        attention.out.weight[:] = kept
    return (scores[0] / temperature).softmax(-1).numpy()


@in_browser
def test_knobs_of_a_translator_give_the_models_numbers(translator, tmp_path):
    said = TARGET[:3]
    view = look(translator, SOURCE, said, WORDS, knobs=True)
    steps = """
      const tell = (turned) => {
        turn({ ...begun, ...turned });
        return trace.scores.map((row) => probabilities(row, knobs.temperature));
      };
      const told = [
        tell({}),
        tell({ temperature: 0.5 }),
        tell({ off: ["decoder.1.cross 2"] }),
        tell({ masked: false }),
        tell({ source: ["two", "three", "and", "hundred"] }),
      ];
      turn(begun);
      return [told, stacks.map((stack) => stack.layers.map((layer) => layer.heads))];
    """
    told, heads = in_chromium(view.page(), steps, tmp_path)
    for layers, stack in zip(heads, view.stacks.values(), strict=True):
        np.testing.assert_allclose(layers, stack.layers, atol=1e-6)
    changed = ["two", "three", "and", "hundred"]
    for own, expected in zip(
        told,
        [
            next_token(translator, SOURCE, said),
            next_token(translator, SOURCE, said, temperature=0.5),
            next_token(translator, SOURCE, said, off=(translator.decoder[1].cross, 2)),
            unmasked(translator, SOURCE, said),
            next_token(translator, changed, said),
        ],
        strict=True,
    ):
        np.testing.assert_allclose(own, expected, atol=1e-5)
        assert own is told[0] or np.abs(np.subtract(own, told[0])).max() > 1e-3


@mt.no_grad()
def unmasked(translator, source, said):
    """Probabilities of a decoder that looks ahead."""
    y, real = translator.embedded(numbers_of(said)), mt.ones(1, 1, 1, len(source)).bool()
    memory = translator.encode(numbers_of(source))
    for block in translator.decoder:
        y = block(y, None, memory, real)
    return translator.out(translator.decoder_norm(y))[0].softmax(-1).numpy()


@in_browser
def test_a_reader_turns_the_knobs(translator, tmp_path):
    view = look(translator, SOURCE, TARGET[:3], WORDS, knobs=True)
    steps = """
      const told = {};
      choose({ layer: 0, head: 0 });
      const shown = () => [...document.querySelectorAll("#next .number")].map(
        (number) => [vocabulary[number.dataset.token], number.textContent]);
      press("#head", "ArrowDown");
      told.first = shown();
      click("#source-0"); click("#source-3");
      told.swapped = [knobs.source, shown()];
      click("#reset");
      told.again = shown();
      find("#temperature").value = 0.5;
      find("#temperature").dispatchEvent(new Event("input", { bubbles: true }));
      told.colder = shown();
      click("#reset");
      find("#off").click();
      told.off = [knobs.off, shown(), document.querySelectorAll("#maps svg.off").length];
      find("#off").click();
      find("#masked").click();
      told.masked = knobs.masked;
      click("#reset");
      click("#say");
      told.target = knobs.target;
      find("#words").value = "three hundred";
      find("#typed").requestSubmit();
      told.typed = [knobs.source, knobs.target];
      find("#words").value = "three hundert x";
      find("#typed").requestSubmit();
      told.refused = [knobs.source, find("#words").validationMessage];
      click("#maps svg[data-layer='1'][data-head='0']");
      find("#way details").open = true;
      told.way = [...document.querySelectorAll("#way .name")].map((name) => name.textContent);
      told.numbers = find("#way .numbers p").innerText.split(/\\s+/).length;
      press("#head", "ArrowUp");
      told.open = document.querySelectorAll("#way details[open]").length;
      return told;
    """
    told = in_chromium(view.page(), steps, tmp_path)

    def likeliest(*arguments, **knobs):
        row = next_token(translator, *arguments, **knobs)[-1]
        best = sorted(range(len(row)), key=lambda token: -row[token])[:6]
        return [[WORDS.tokens[token], f"{row[token]:.3f}"] for token in best]

    said, swapped = TARGET[:3], ["three", "hundred", "and", "two"]
    assert told["first"] == told["again"] == likeliest(SOURCE, said)
    assert told["swapped"] == [swapped, likeliest(swapped, said)]
    assert told["colder"] == likeliest(SOURCE, said, temperature=0.5)
    silent = likeliest(SOURCE, said, off=(translator.decoder[0].cross, 0))
    assert told["off"] == [["decoder.0.cross 0"], silent, 1]
    assert told["masked"] is False
    assert told["target"] == [*said, likeliest(SOURCE, said)[0][0]]
    assert told["typed"] == [["three", "hundred"], ["<s>"]]
    assert told["refused"][0] == ["three", "hundred"]
    assert told["refused"][1] == "not in the vocabulary: x"
    assert told["way"][:7] == [
        *("residual stream", "norm", "query", "keys", "scores", "mask", "softmax")
    ]
    assert told["way"][-2:] == ["logits", "probabilities"]
    assert (told["numbers"], told["open"]) == (16, 1)


@in_browser
def test_a_language_model_computes_too_and_its_way_is_a_chain(tmp_path):
    mt.manual_seed(0)
    letters = Vocabulary("the value", ["<unk>", "<s>"])
    model = OneStack(len(letters), 16, 4, 32, layers=2, causal=True)
    text = ["<s>", *"the val"]
    steps = """
      choose({ layer: 1, query: 5 });
      const way = steps().map(([name, , , rows]) => [name, rows]);
      const told = [trace.scores, way];
      find("#words").value = "<s>the value";
      find("#typed").requestSubmit();
      return [...told, knobs.source];
    """
    page = look(model, text, vocabulary=letters, knobs=True).page()
    scores, way, typed = in_chromium(page, steps, tmp_path)
    with mt.no_grad():
        expected = model(letters.encode(text).unsqueeze(0))[0].numpy()
    np.testing.assert_allclose(scores, expected, atol=1e-5)
    assert typed == [*text, "u", "e"]
    way = [(name, np.array(rows, dtype=float)) for name, rows in way]
    found = dict(way)
    streams = [rows for name, rows in way if name == "residual stream"]
    scores, mask = found["scores"][0], found["mask"][0]
    np.testing.assert_allclose(found["query"] @ found["keys"].T / 2, found["scores"], atol=1e-6)
    np.testing.assert_array_equal(mask[:6], scores[:6])
    assert np.isnan(mask[6:]).all()  # JSON has no infinity
    np.testing.assert_allclose(found["softmax"] @ found["values"], found["mixed values"], atol=1e-6)
    np.testing.assert_allclose(streams[0] + found["output"], streams[1], atol=1e-6)
    np.testing.assert_allclose(streams[1] + found["feed-forward, output"], streams[2], atol=1e-6)
    np.testing.assert_allclose(found["logits"][0], expected[5], atol=1e-5)


@mt.no_grad()
def test_the_models_of_the_web_page_have_learned():
    kept = mt.load(window.FOLDER / "translator.safetensors")
    model, words = Transformer(**kept["sizes"]), Vocabulary([], kept["tokens"])
    model.load_state_dict(kept["weights"])
    pairs = number_pairs(100, digits=(3, 6), held_out=True, seed=1)
    right = 0
    for pair in pairs:
        source = words.encode(pair.source).unsqueeze(0)
        target = words.encode(["<s>", *pair.target, "</s>"]).unsqueeze(0)
        right += mt.equal(model(source, target[:, :-1]).argmax(-1), target[:, 1:])
    assert right >= 95
    view = window.view("language model")
    assert [len(layer) for layer in view.stacks["self-attention, source"].layers] == [4, 4]


def test_knobs_are_for_the_books_small_models(translator):
    with pytest.raises(TypeError, match="chapter 10's Transformer or OneStack"):
        look(lambda *inputs: translator(*inputs), SOURCE, TARGET, WORDS, knobs=True)
    wide = OneStack(len(WORDS), 256, 4, 512, layers=1, causal=True)
    with pytest.raises(ValueError, match="at most 1,048,576 bytes"):
        look(wide, SOURCE, vocabulary=WORDS, knobs=True)


@in_browser
def test_a_frame_is_as_high_as_its_page_and_dressed_as_the_page_around(tmp_path):
    mt.manual_seed(0)
    model = OneStack(len(WORDS), 16, 4, 32, layers=1, causal=True)
    view = look(model, SOURCE, vocabulary=WORDS)
    page = f"<body style='background: rgb(20, 20, 20)'>{view._repr_html_()}"
    steps = """
      await new Promise((done) => setTimeout(done, 500));
      const frame = find("iframe"), inside = frame.contentDocument;
      const scheme = () => inside.documentElement.style.colorScheme;
      const found = [scheme(), frame.offsetHeight - inside.body.offsetHeight,
        document.querySelectorAll("p").length];
      document.body.style.background = "rgb(255, 255, 255)";
      await new Promise((done) => setTimeout(done, 100));
      return [...found, scheme()];
    """
    assert in_chromium(page, steps, tmp_path) == ["dark", 8, 0, "light"]
