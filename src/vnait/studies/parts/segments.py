"""Lengths of a text's segments, for the hierarchy study: drawn ones, and those of the sentences of real news."""

from __future__ import annotations

import re

import numpy as np
from gensim.test.utils import datapath

LENGTH, SEGMENT = 512, 16  # of a text, and of a segment in the mean (tokens)


def drawn_lengths(spread: float, random: np.random.Generator) -> list[int]:
    """Segments of 16 tokens in the mean, gamma distributed and rounded; 512 tokens or the first segment that reaches them."""
    shape = np.inf if spread == 0 else spread**-2
    drawn = np.full(LENGTH, SEGMENT) if spread == 0 else random.gamma(shape, SEGMENT / shape, LENGTH)
    lengths = np.maximum(np.rint(drawn), 1).astype(int)
    return lengths[: int(np.searchsorted(lengths.cumsum(), LENGTH)) + 1].tolist()


def sentence_lengths() -> list[list[int]]:
    """Words a sentence, of each news article of the Lee corpus with five sentences or more."""
    with open(datapath("lee_background.cor"), encoding="utf-8") as file:
        cut = [re.split(r"(?<=[.!?])\s+(?=[A-Z\"'])", line.strip()) for line in file]
    return [[len(sentence.split()) for sentence in article] for article in cut if len(article) >= 5]
