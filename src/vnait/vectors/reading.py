"""Vectors from a file, and what a file holds."""

from collections.abc import Collection
from itertools import islice
from pathlib import Path
from typing import Any

from vnait.errors import InputError
from vnait.vectors.layout import FASTTEXT, NATIVE, Layout, sniff
from vnait.vectors.native import fasttext, keyed, pick, scan
from vnait.vectors.streams import collect, rows
from vnait.vectors.table import Vectors, none_known

_SHOWN = 5


def load(path: str | Path, words: Collection[str] | None = None) -> Vectors:
    """The vectors of `words` (of all words where None) in the file `path`.

    The format is told from the content: word2vec binary or text, GloVe text, each also as gzip, read in one pass that holds only
    the rows it keeps; fastText `.bin`, where subwords give every word a row; gensim's KeyedVectors or Word2Vec, which are Python
    pickles: reading one runs what its author put there, so they need the ending .kv or .model. Words are looked up exactly, the
    first of equal words wins, rows keep the file's order. An InputError names the file, and the line or the word at fault.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     _ = Path(folder, "glove.txt").write_text("film 0.5 1\\nplot 2 3\\n")
    ...     vectors = load(Path(folder, "glove.txt"), ["plot", "unseen"])
    >>> vectors.words, vectors.table.tolist()
    (['plot'], [[2.0, 3.0]])
    """
    if isinstance(words, str):
        raise InputError(f"words is one string, {words[:40]!r}; give a list of words.")
    layout = sniff(Path(path))
    names, table = _READERS.get(layout.format, collect)(layout, words)
    if words is not None and not names:
        raise none_known(path, list(words))
    return Vectors(names, table, str(path))


def info(path: str | Path) -> dict[str, Any]:
    """What the file `path` holds: its format, words (how many), dim, bytes (on disk) and first (the first five words).

    Streamed to its end, so a damaged file is found; the numbers themselves are not looked at. Raises as `load` does.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     _ = Path(folder, "glove.txt").write_text("film 0.5 1\\nplot 2 3\\n")
    ...     info(Path(folder, "glove.txt"))
    {'format': 'GloVe text', 'words': 2, 'dim': 2, 'bytes': 20, 'first': ['film', 'plot']}
    """
    layout = sniff(Path(path))
    count, dim, first = _COUNTERS.get(layout.format, _count_rows)(layout)
    name = f"{layout.format}, gzip" if layout.packed else layout.format
    return {"format": name, "words": count, "dim": dim, "bytes": layout.path.stat().st_size, "first": first}


def _count_rows(layout: Layout) -> tuple[int, int, list[str]]:
    stream = rows(layout)
    first = [word.decode("utf-8", "backslashreplace") for word, _ in islice(stream, _SHOWN)]
    return len(first) + sum(1 for _ in stream), layout.dim, first


def _count_keyed(layout: Layout) -> tuple[int, int, list[str]]:
    vectors = keyed(layout)
    return len(vectors.index_to_key), int(vectors.vector_size), list(vectors.index_to_key[:_SHOWN])


def _count_fasttext(layout: Layout) -> tuple[int, int, list[str]]:
    found = scan(layout.path)
    return found.count, found.dim, found.first[:_SHOWN]


_READERS = {
    NATIVE: lambda layout, words: pick(keyed(layout), words),
    FASTTEXT: lambda layout, words: pick(fasttext(layout), words),
}
_COUNTERS = {NATIVE: _count_keyed, FASTTEXT: _count_fasttext}
