"""How many words of texts have a vector."""

import logging
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from itertools import chain, islice
from typing import Any

from vnait.data import tokens

logger = logging.getLogger("vnait")

_PART = 4096

Shares = dict[str, float]  # of the different words, and of all tokens


def coverage(sentences: Iterable[Sequence[str]], tokenizer: Any) -> Shares:
    """The shares of different words and of all tokens that the tokenizer knows; 1 if there are none.

    >>> coverage([["warm", "film"], ["warm", "plot"]], tokens.tokenizer(["warm"]))
    {'words': 0.3333333333333333, 'tokens': 0.5}
    """
    known = tokenizer.get_vocab().keys() - set(tokens.SPECIAL)
    counts = Counter(word for sentence in sentences for word in sentence)
    covered = [count for word, count in counts.items() if word in known]
    if not counts:
        return {"words": 1.0, "tokens": 1.0}
    return {"words": len(covered) / len(counts), "tokens": sum(covered) / counts.total()}


def coverage_of(texts: Iterable[str], tokenizer: Any) -> Shares:
    """The `coverage` of texts, cut into words as the tokenizer does."""
    rest = iter(texts)
    parts = iter(lambda: list(islice(rest, _PART)), [])  # so that a long file is not held in memory
    tokenization = tokenizer.init_kwargs["tokenization"]
    return coverage(chain.from_iterable(tokens.words(part, tokenization) for part in parts), tokenizer)


def log_coverage(coverages: Mapping[str, Shares]) -> None:
    """Log what `written` makes of them; nothing if there are none."""
    if coverages:
        logger.info("%s.", written(coverages))


def written(coverages: Mapping[str, Shares]) -> str:
    """What share of words has a vector, by the name of the rows.

    >>> written({"training": {"words": 0.9, "tokens": 0.985}})
    'words with a vector: training rows 90.0 % (98.5 % of the tokens)'
    """
    parts = [
        f"{rows} rows {100 * shares['words']:.1f} % ({100 * shares['tokens']:.1f} % of the tokens)"
        for rows, shares in coverages.items()
    ]
    return f"words with a vector: {', '.join(parts)}"
