"""Vectors from a file, and a summary of a file."""

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
    """The vectors of `words` (None: of all words) in the file `path`.

    The content decides the format: word2vec binary or text, GloVe text, each also as gzip, read in one pass
    that stores only the rows wanted; fastText `.bin`, where subwords give every word a row; gensim's
    KeyedVectors or Word2Vec. The last two are Python pickles, which run their author's code when read, so
    they need the ending .kv or .model. Words are matched exactly, the first of equal words counts, rows are
    in the file's order. An InputError names the file, and the line or word at fault.

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
    """The format of the file `path`, words (how many), dim, bytes (on disk) and first (the first five words).

    The whole file is read, so damage is found; the numbers themselves are not checked. Raises as `load` does.

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


_READERS = {
    NATIVE: lambda layout, words: pick(keyed(layout), words),
    FASTTEXT: lambda layout, words: pick(fasttext(layout), words),
}
_COUNTERS = {NATIVE: _count_keyed, FASTTEXT: lambda layout: scan(layout.path)}
