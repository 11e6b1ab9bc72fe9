"""The trained translator that chapter 03 loads."""

from textbook.chapter_03 import EncoderDecoder, fully_right, number_texts
from textbook.data import translator_weights


def test_the_translator_of_the_book_translates_held_out_numbers():
    training, held_out, _ = number_texts()
    model = EncoderDecoder(len(training.source_words), len(training.target_words))
    assert fully_right(model, held_out).float().mean().item() < 0.01
    model.load_state_dict(translator_weights())
    assert fully_right(model, held_out).float().mean().item() > 0.98
