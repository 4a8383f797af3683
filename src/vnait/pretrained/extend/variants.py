"""The variants: names of the ways in which long texts are read, from cutting them to extending the model."""

from __future__ import annotations

from vnait.pretrained.extend.stretching import READINGS, SourceKind

CUT, MEAN, SUREST, WORDS, VNAIT = "cut", "windows-mean", "windows-surest", "bm25", "vnait"
FREE = (CUT, MEAN, SUREST)  # of the model as it is
UNSAVED = (CUT, WORDS)  # which need no other model
VARIANTS = {
    CUT: "the first tokens, up to the limit",
    MEAN: READINGS["windows"].meaning + "; one vector per text",
    SUREST: "windows of the limit's length, one vector each; the best match decides",
    WORDS: "words, without the model (BM25; for labels, TF-IDF and logistic regression)",
    **{name: reading.meaning for name, reading in READINGS.items() if name != "windows"},
    VNAIT: "vnait attached, untrained: places compressed to end at the table's last row",
}


def variants_of(source: SourceKind) -> tuple[str, ...]:
    """The variants that are for a source of position."""
    unfit = {name for name, reading in READINGS.items() if source not in reading.sources}
    return tuple(name for name in VARIANTS if name not in unfit)
