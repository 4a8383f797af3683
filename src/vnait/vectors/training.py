"""Word2Vec, trained on the reader's own sentences."""

from collections import Counter
from collections.abc import Sequence

from vnait.errors import InputError
from vnait.vectors.native import quiet
from vnait.vectors.table import Vectors

# gensim's compiled loop reads no further than this into a sentence, and says nothing.
_LONGEST = 10_000
LEARNED = "Word2Vec of"  # how the source of such vectors begins


def train(
    sentences: Sequence[Sequence[str]],
    *,
    dim: int = 96,
    window: int = 5,
    min_count: int = 2,
    epochs: int = 20,
    seed: int = 0,
) -> Vectors:
    """Skip-gram Word2Vec vectors of `sentences` (lists of words): maximise log p(neighbour | word) with negative sampling.

    `window` is the neighbours' reach in words; words seen fewer than `min_count` times get no row; the most frequent come first.
    One worker: the same sentences and settings give the same table, bit for bit, in any process.
    Source: Mikolov et al. 2013 (arXiv 1310.4546), as in gensim. An InputError says if nothing is left to train on.

    >>> vectors = train([["good", "film"], ["bad", "film"], ["good", "cast"]], dim=4, epochs=1)
    >>> vectors.words, vectors.table.shape
    (['film', 'good'], (2, 4))
    """
    _check_settings(dim=dim, window=window, min_count=min_count, epochs=epochs, seed=seed)
    _check_sentences(sentences, min_count)
    from gensim.models import Word2Vec

    with quiet():
        model = Word2Vec(
            _pieces(sentences),
            vector_size=dim,
            window=window,
            min_count=min_count,
            epochs=epochs,
            seed=seed,
            sg=1,
            workers=1,
        )
    source = f"{LEARNED} {len(sentences):,} sentences (seed {seed})"
    return Vectors(list(model.wv.index_to_key), model.wv.vectors, source)


def _pieces(sentences: Sequence[Sequence[str]]) -> list[Sequence[str]]:
    return [words[start : start + _LONGEST] for words in sentences for start in range(0, len(words), _LONGEST)]


def _check_settings(**settings: int) -> None:
    for name, value in settings.items():
        least = 0 if name == "seed" else 1
        if value < least:
            raise InputError(f"{name} is {value}; give a whole number of at least {least}.")
    if settings["seed"] >= 2**32:
        raise InputError(f"seed is {settings['seed']}; give a whole number below {2**32}.")


def _check_sentences(sentences: Sequence[Sequence[str]], min_count: int) -> None:
    for number, words in enumerate(sentences, start=1):
        if isinstance(words, str):
            raise InputError(f"sentence {number} is one string, {words[:40]!r}; give a list of its words.")
    seen = Counter(word for words in sentences for word in words)
    most = max(seen.values(), default=0)
    if most < min_count:
        raise InputError(
            f"no word occurs {min_count} times (min_count) in the {len(sentences):,} sentences, the most frequent one "
            f"{most} times; give more text or lower min_count."
        )
