"""Word2Vec, trained on the user's own sentences."""

from collections import Counter
from collections.abc import Sequence

from vnait.data.vectors.reading import GENSIM
from vnait.data.vectors.table import Vectors
from vnait.shared.errors import InputError
from vnait.shared.quiet import logger_at

EPOCHS = 20
# With more words fewer epochs are enough: at most so many words are read in all, in one epoch at least.
MOST_WORDS = 20_000_000
# gensim silently ignores the words of a sentence after this many.
_LONGEST = 10_000
LEARNED = "Word2Vec of"  # the first words of the source of such vectors


def train(
    sentences: Sequence[Sequence[str]],
    *,
    dim: int = 96,
    min_count: int = 2,
    epochs: int | None = None,
    seed: int = 0,
) -> Vectors:
    """Skip-gram Word2Vec of `sentences` (lists of words): log p(neighbour | word), negative sampling.

    epochs   None: 20, or fewer of more than a million words, so that 20 million are read in all

    Neighbours are up to 5 words away. Words that occur fewer than `min_count` times get no row; the most
    frequent come first. One worker, so that the same sentences and settings give the same table, bit for bit.
    Source: Mikolov et al. 2013 (arXiv:1310.4546), as in gensim. InputError if no word is left.

    >>> vectors = train([["good", "film"], ["bad", "film"], ["good", "cast"]], dim=4, epochs=1)
    >>> vectors.words, vectors.table.shape
    (['film', 'good'], (2, 4))
    """
    _check_settings(dim=dim, min_count=min_count, epochs=EPOCHS if epochs is None else epochs, seed=seed)
    count = _check_sentences(sentences, min_count)
    if epochs is None:
        epochs = max(1, min(EPOCHS, MOST_WORDS // count))
    from gensim.models import Word2Vec

    pieces = [piece for words in sentences for piece in _pieces(words)]
    with logger_at(*GENSIM):
        model = Word2Vec(
            pieces,
            vector_size=dim,
            window=5,
            min_count=min_count,
            epochs=epochs,
            seed=seed,
            sg=1,
            workers=1,
        )
    source = f"{LEARNED} {len(sentences):,} sentences (seed {seed})"
    return Vectors(list(model.wv.index_to_key), model.wv.vectors, source)


def _pieces(words: Sequence[str]) -> list[Sequence[str]]:
    """The sentence itself, since a copy of all of them would double their memory; only a long one is cut."""
    if 0 < len(words) <= _LONGEST:
        return [words]
    return [words[start : start + _LONGEST] for start in range(0, len(words), _LONGEST)]


def _check_settings(**settings: int) -> None:
    for name, value in settings.items():
        least = 0 if name == "seed" else 1
        if value < least:
            raise InputError(f"{name} is {value}; give a whole number of at least {least}.")
    if settings["seed"] >= 2**32:
        raise InputError(f"seed is {settings['seed']}; give a whole number below {2**32}.")


def _check_sentences(sentences: Sequence[Sequence[str]], min_count: int) -> int:
    """The number of words; InputError if none is left to learn."""
    for number, words in enumerate(sentences, start=1):
        if isinstance(words, str):
            raise InputError(f"sentence {number} is one string, {words[:40]!r}; give a list of its words.")
    seen = Counter(word for words in sentences for word in words)
    most = max(seen.values(), default=0)
    if not most:
        raise InputError(f"the {len(sentences):,} texts have no word; give texts that are not empty.")
    if most < min_count:
        raise InputError(
            f"no word occurs {min_count} times in the texts (min_count is {min_count}, and there are "
            f"{len(sentences):,} texts): give more of them, characters as tokens, or vectors of your own."
        )
    return seen.total()
