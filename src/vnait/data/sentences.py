"""Sentences of words, each with a tag: as one text, and as ids with the place where each word starts."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass


def sentence(words: Iterable[str]) -> str:
    """The words, or their tags, as one text with a space between two; one inside a word is made no-break.

    >>> sentence(["about", "10 000", "films"])
    'about 10\\xa0000 films'
    """
    return " ".join("\u00a0".join(word.split()) for word in words)


def split_words(text: str) -> list[str]:
    """The words of `sentence`, or of any text with white space between them.

    >>> split_words("about 10\\xa0000 films"), split_words("")
    (['about', '10\\xa0000', 'films'], [])
    """
    return [word for word in re.split(r"[ \t\r\n]+", text) if word]


@dataclass(frozen=True)
class Piece:
    """As many words of a sentence as a model reads at once: their ids, and where each word starts in them.

    A word of several tokens has its tag at the first one, as in Devlin et al. (2019), section 5.3.
    """

    ids: list[int]
    starts: list[int]


def pieces(
    words: Sequence[Sequence[int]], max_length: int, before: Sequence[int] = (), after: Sequence[int] = ()
) -> list[Piece]:
    """A sentence, given by the ids of its words, in pieces of at most `max_length` ids.

    before, after   special tokens of each piece, which count, too. A word longer than a piece is cut.

    >>> pieces([[5], [6, 7], [8, 9]], 4)
    [Piece(ids=[5, 6, 7], starts=[0, 1]), Piece(ids=[8, 9], starts=[0])]
    >>> pieces([[5], [6, 7]], 9, before=[1], after=[2])
    [Piece(ids=[1, 5, 6, 7, 2], starts=[1, 2])]
    """
    room = max_length - len(after)
    parts: list[Piece] = []
    for word in words:
        if not parts or len(parts[-1].ids) + len(word) > room:
            parts.append(Piece([*before], []))
        ids, starts = parts[-1].ids, parts[-1].starts
        starts.append(len(ids))
        ids += word[: room - len(ids)]
    for piece in parts:
        piece.ids.extend(after)
    return parts
