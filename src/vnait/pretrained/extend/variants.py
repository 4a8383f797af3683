"""The variants: names of the ways in which long texts are read, from cutting them to extending the model."""

from __future__ import annotations

from vnait.positions.methods import CAUSAL
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
    VNAIT: "vnait attached, untrained (vnait-causal to a decoder): places end at the table's last row",
}


def variants_of(source: SourceKind) -> tuple[str, ...]:
    """The variants that are for a source of position."""
    unfit = {name for name, reading in READINGS.items() if source not in reading.sources}
    return tuple(name for name in VARIANTS if name not in unfit)


# Of a language model, whose measure is the perplexity of a text's last tokens.
LAST = "last"
FREE_OF_DECODERS = (LAST, WORDS, "unchanged")  # of the model as it is
DECODER_VARIANTS = {
    LAST: "the last tokens, up to the limit",
    WORDS: "the last half of the limit, and the windows before it that share most words with its end (BM25)",
    **{name: reading.meaning for name, reading in READINGS.items() if name != "windows"},
    CAUSAL: "vnait-causal attached, untrained: from its exact start, which reads as the model does",
}
ROTATED_BETTER = ("interpolated", "grouped")  # where there is a rotation, ntk and yarn are measured instead
