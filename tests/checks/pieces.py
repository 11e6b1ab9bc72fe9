"""What mistakes exchange a piece of is a right answer as long as nothing is exchanged."""

from textbook.checks import (
    chapter_01,
    chapter_02,
    chapter_03,
    chapter_04,
    chapter_06,
    chapter_08,
    chapter_13,
)

IN_PIECES = [
    (chapter_01.broken_readers, chapter_01.reading._testing()),
    (chapter_02.two_bits, chapter_02.memory._by_hand()),
    (chapter_02.broken_layers, chapter_02.broken._testing()),
    (chapter_03.broken_encoders, chapter_03.padded._testing()),
    (chapter_04.broken_attentions, chapter_04.looking._testing()),
    (chapter_06.GroupedAttention, chapter_06.layer.LayerInPieces),
    (chapter_08.rotate, chapter_08.rotary._rotary()),
    (chapter_13.blank_loss, chapter_13.blanks._loss()),
    (chapter_13.mask_words, chapter_13.words._masking()),
    (chapter_13.training_plan, chapter_13.budgets._planned()),
    (chapter_13.completion_scores, chapter_13.completions._scoring()),
    (chapter_13.tokens_needed, chapter_13.curves._tokens_needed()),
    (chapter_13.PartlyTuned, chapter_13.freezing.TunedInPieces),
    (chapter_13.best_sizes, chapter_13.isoflops._best()),
    (chapter_13.pretrain, chapter_13.labels._pretraining()),
    (chapter_13.probe, chapter_13.probing._probing()),
    (chapter_13.unfair, chapter_13.comparisons._testing()),
]
