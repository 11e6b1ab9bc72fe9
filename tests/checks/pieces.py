"""What mistakes exchange a piece of is a right answer as long as nothing is exchanged."""

from textbook.checks import chapter_01, chapter_02, chapter_03, chapter_04, chapter_08

IN_PIECES = [
    (chapter_01.broken_readers, chapter_01.reading._testing()),
    (chapter_02.two_bits, chapter_02.memory._by_hand()),
    (chapter_02.broken_layers, chapter_02.broken._testing()),
    (chapter_03.broken_encoders, chapter_03.padded._testing()),
    (chapter_04.broken_attentions, chapter_04.looking._testing()),
    (chapter_08.rotate, chapter_08.rotary._rotary()),
]
