"""How the words of a vector file are written, for one who must choose a file that fits the texts."""

import unicodedata
from collections import Counter
from collections.abc import Iterable
from functools import cache
from typing import Any

from vnait.data.text import normalized

_SHOWN = 6  # scripts
_EXAMPLES = 3


def spelling(words: Iterable[str]) -> dict[str, Any]:
    """What share of words is of which kind, from 0 to 1, and the share of words by script.

    normalized   as texts are looked up: small letters, NFC, nothing invisible
    capitals     with a capital
    not_nfc      with letters that are decomposed, as macOS writes them
    phrases      several words, joined by _ or a space, which no text has as one
    scripts      of the first letter of a word; "none" for numbers and symbols
    examples     words that are not normalized

    >>> spelling(["film", "Film", "new_york", "1999"])["capitals"]
    0.25
    """
    counts: Counter[str] = Counter()
    scripts: Counter[str] = Counter()
    examples: list[str] = []
    total = 0
    for total, word in enumerate(words, 1):  # noqa: B007, one pass, since a file may be long
        plain = normalized(word) == word
        if not plain and len(examples) < _EXAMPLES:
            examples.append(word)
        counts["normalized"] += plain
        counts["capitals"] += word != word.lower()
        counts["not_nfc"] += not unicodedata.is_normalized("NFC", word)
        counts["phrases"] += any(mark in word.strip(mark) for mark in "_ ")
        scripts[next((_script(letter) for letter in word if letter.isalpha()), "none")] += 1
    kinds = ("normalized", "capitals", "not_nfc", "phrases")
    return {
        **{kind: counts[kind] / total if total else 0.0 for kind in kinds},
        "scripts": {name: count / total for name, count in scripts.most_common(_SHOWN)},
        "examples": examples,
    }


@cache
def _script(letter: str) -> str:
    """The first word of its name, such as Latin, Cyrillic, CJK or Hangul."""
    name = unicodedata.name(letter, "other").partition(" ")[0]
    return name if name == "CJK" else name.capitalize()
