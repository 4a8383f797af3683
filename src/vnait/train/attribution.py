"""What each token of a text adds to a logit of a linear model."""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import TypedDict

import numpy as np
from numpy.typing import NDArray

from vnait.data import words as words_of
from vnait.data.tokens import spans
from vnait.train.features import Terms, with_places

BY_TERMS = "the parts of the terms with this token; two tokens of a pair have half of its part each"
BY_OCCLUSION = "how far the logit falls without this token; the falls do not sum to the logit"


class TokenParts(TypedDict):
    """The tokens of a text, what each adds to the logit, and what that means."""

    tokens: list[str]
    attribution: list[float]
    by: str


def by_terms(part: Terms, added: Mapping[str, float], text: str) -> TokenParts:
    """Tokens and their parts, which sum to those of the terms, `added`; of places or a mean of words."""
    words = words_of([text], part.tokenization)[0]
    holders = _holders(part, words)
    times = Counter(term for term, _ in holders)
    parts = [0.0] * len(words)
    for term, places in holders:
        for place in places:
            parts[place] += added.get(term, 0.0) / times[term] / len(places)
    return {"tokens": words, "attribution": parts, "by": BY_TERMS}


def _holders(part: Terms, words: Sequence[str]) -> list[tuple[str, list[int]]]:
    """Each term of the words, with the numbers of the words that it has.

    >>> _holders(Terms(kind="places", tokenization="words", terms=[]), ["not", "bad"])[1:3]
    [('2=bad', [1]), ('1=not bad', [0, 1])]
    """
    if part.unknown is not None:
        known = set(part.terms)
        return [(word if word in known else part.unknown, [place]) for place, word in enumerate(words)]
    numbered = with_places([str(place) for place in range(len(words))])  # the same terms of other words
    places = [list(map(int, term.partition("=")[2].split())) for term in numbered]
    return list(zip(with_places(words), places, strict=True))


def by_occlusion(
    logit: Callable[[Sequence[str]], NDArray[np.float64]], tokenization: str, text: str
) -> TokenParts:
    """Tokens, and how far the logit of the text falls without each."""
    cuts = spans(text, tokenization)
    left = [text[:start] + text[end:] for start, end in cuts]
    logits = logit([text, *left])
    tokens = [text[start:end] for start, end in cuts]
    return {"tokens": tokens, "attribution": (logits[0] - logits[1:]).tolist(), "by": BY_OCCLUSION}
