"""Words for figures and terminals: without control characters, cut, in fonts that have their letters; the
parts of a logit in a sentence.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import TYPE_CHECKING

from rich.cells import cell_len, set_cell_size

if TYPE_CHECKING:
    from vnait.results.explanation import Explanation

logger = logging.getLogger("vnait")

ADDS = "to the logit, by integrated gradients; (constant): with the vector of an unknown word at each place"
WITHOUT_ADDS = "left out, since captum is missing: pip install 'vnait[explain]'"
EQUAL = "equal: all tokens count alike here, as in vnait-uniform"
CONTROL = "the gaps of the same training with shuffled labels: what both share is not learned from the labels"

MAX_CELLS = 24  # of the longest word that is shown whole
BOX = "\N{WHITE SQUARE}"


def printable(word: str) -> str:
    """A word without control characters, cut to 24 cells; a Chinese character takes two.

    >>> printable("a" * 30), printable(chr(27) + "[31m")
    ('aaaaaaaaaaaaaaaaaaaaaaa…', '�[31m')
    """
    plain = "".join(letter if letter.isprintable() else "\N{REPLACEMENT CHARACTER}" for letter in word)
    return plain if cell_len(plain) <= MAX_CELLS else set_cell_size(plain, MAX_CELLS - 1).rstrip() + "…"


def logit_parts(explanation: Explanation) -> str:
    """The logit of the answer and its two parts, in a sentence.

    >>> from types import SimpleNamespace
    >>> logit_parts(SimpleNamespace(logit={"Transformer": 0.25, "bag of words": 1.0}))
    "Logit +1.25 over the labels' mean: Transformer +0.25, bag of words +1.00"
    """
    parts = ", ".join(f"{name} {part:+.2f}" for name, part in explanation.logit.items())
    return f"Logit {sum(explanation.logit.values()):+.2f} over the labels' mean: {parts}"


def probability_of(label: str, answer: str, probability: float) -> str:
    """The probability of the class that is explained, and the answer if that is another class.

    >>> probability_of("neg", "pos", 0.25)
    'probability 0.250; the answer is pos'
    """
    return f"probability {probability:.3f}" + ("" if label == answer else f"; the answer is {answer}")


def drawable(words: Sequence[str]) -> tuple[list[str], list[str]]:
    """Font families that cover the words; the words, with boxes for letters that no installed font has."""
    from matplotlib import get_data_path
    from matplotlib.font_manager import findSystemFonts, fontManager

    plain = [printable(word) for word in words]
    families = ["DejaVu Sans"]
    missing = set("".join(plain)) - _letters(f"{get_data_path()}/fonts/ttf/DejaVuSans.ttf")[1]
    paths = sorted(findSystemFonts()) if missing else []
    while missing:
        covered = [
            (missing & letters, family, path) for path in paths for family, letters in [_letters(path)]
        ]
        letters, family, path = max(covered, key=lambda font: len(font[0]), default=(set[str](), "", ""))
        if not letters:
            break
        if family not in fontManager.get_font_names():
            fontManager.addfont(path)
        families.append(family)
        missing -= letters
    if missing:
        logger.warning(
            "no installed font has %s; boxes are drawn. Install one, such as Noto.", " ".join(sorted(missing))
        )
    return families, ["".join(BOX if letter in missing else letter for letter in word) for word in plain]


def _letters(path: str) -> tuple[str, set[str]]:
    """The family and the letters of a font; none if it can't be read or scaled."""
    from matplotlib.ft2font import FT2Font

    try:
        font = FT2Font(path)
        return font.family_name, set(map(chr, font.get_charmap())) if font.scalable else set()
    except (OSError, RuntimeError):
        return "", set()
