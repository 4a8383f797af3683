"""Vectors from a file, and a summary of a file; gensim reads its own KeyedVectors and fastText for us."""

import logging
import struct
from collections.abc import Callable, Collection, Iterator
from io import BufferedReader
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Float32

from vnait.data.text import normalized
from vnait.data.vectors.sniffing import FASTTEXT, FASTTEXT_MAGIC, NATIVE, Layout, sniff
from vnait.data.vectors.streams import collect, records, rows, selected
from vnait.data.vectors.table import Vectors, none_known
from vnait.shared.errors import InputError
from vnait.shared.quiet import logger_at

# Its warnings, of few jobs or missing n-grams, are not about the user's data.
GENSIM = "gensim", logging.CRITICAL + 1

LARGEST = 1e6  # vectors have numbers around 1; some, made of counts, have thousands
_SHOWN = 5


def load(path: str | Path, words: Collection[str] | None = None) -> Vectors:
    """The vectors of `words` (None: of all words) in the file `path`.

    The content decides the format: word2vec binary or text, GloVe text, each also packed (gz, bz2, xz, zip),
    read in one pass that stores only the rows wanted; fastText `.bin`, where subwords give every word a row;
    gensim's KeyedVectors or Word2Vec. The last two are Python pickles, which run their author's code when
    read, so they need the ending .kv or .model. Words are matched exactly, the first of equal words counts,
    rows are in the file's order. An InputError names the file, and the line or word at fault.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     _ = Path(folder, "glove.txt").write_text("film 0.5 1\\nplot 2 3\\n")
    ...     vectors = load(Path(folder, "glove.txt"), ["plot", "unseen"])
    >>> vectors.words, vectors.table.tolist()
    (['plot'], [[2.0, 3.0]])
    """
    if isinstance(words, str):
        raise InputError(f"words is one string, {words[:40]!r}; give a list of words.")
    return _read(path, words, 0, str)


def look_up(path: str | Path, words: Collection[str], *, first: int = 0) -> Vectors:
    """The vectors of words as texts have them (`normalized`), and of the `first` of the file, which are the
    most frequent ones in most files.

    A word that the file lacks as it is written gets the vector of the first one that is the same in small
    letters and normalized: "hund" that of "Hund". After that come the n-grams of a fastText model. Names are
    normalized. Raises as `load` does, and where a number is too large for a vector.
    """
    vectors = _read(path, words, first, normalized)
    sizes = np.abs(vectors.table).max(axis=1)
    if (largest := sizes.max()) > LARGEST:
        word = vectors.words[int(sizes.argmax())]
        raise InputError(
            f"{path}: the vector of {word!r} has the number {largest:.3g}, beside which all others are 0; "
            "repair it or get the file again."
        )
    return vectors


def _read(
    path: str | Path, words: Collection[str] | None, first: int, naming: Callable[[str], str]
) -> Vectors:
    layout = sniff(path)
    names, table = _READERS.get(layout.format, collect)(layout, words, first, naming)
    if words is not None and set(words).isdisjoint(names):
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
    layout = sniff(path)
    count, dim, first = _COUNTERS.get(layout.format, _count_rows)(layout)
    packing = "gzip" if layout.packing == "gz" else layout.packing
    name = f"{layout.format}, {packing}" if packing else layout.format
    return {"format": name, "words": count, "dim": dim, "bytes": layout.path.stat().st_size, "first": first}


def _count_rows(layout: Layout) -> tuple[int, int, list[str]]:
    stream = rows(layout)
    first = [word.decode("utf-8", "backslashreplace") for word, _ in islice(stream, _SHOWN)]
    return len(first) + sum(1 for _ in stream), layout.dim, first


def _count_keyed(layout: Layout) -> tuple[int, int, list[str]]:
    vectors = keyed(layout)
    return len(vectors.index_to_key), int(vectors.vector_size), list(vectors.index_to_key[:_SHOWN])


def words_in(path: str | Path) -> Iterator[str]:
    """Every word of the file `path`, as it is written, without the vectors in memory."""
    layout = sniff(path)
    if layout.format in _READERS:
        model = keyed(layout) if layout.format == NATIVE else fasttext(layout)
        yield from map(str, model.index_to_key)
    else:
        yield from (word.decode("utf-8", "backslashreplace") for word, _ in rows(layout))


_READERS = {
    NATIVE: lambda layout, *asked: pick(keyed(layout), *asked),
    FASTTEXT: lambda layout, *asked: pick(fasttext(layout), *asked),
}
_COUNTERS = {NATIVE: _count_keyed, FASTTEXT: lambda layout: scan(layout.path)}


def keyed(layout: Layout) -> Any:
    """The KeyedVectors of the file; a table in a file of its own is mapped, not read."""
    from gensim.models import KeyedVectors

    try:
        with logger_at(*GENSIM):
            model = KeyedVectors.load(str(layout.path), mmap="r")
    except Exception as error:  # a damaged pickle raises anything at all
        raise InputError(
            f"{layout.path} can't be read as gensim's own file ({error}); save it again with a current "
            "gensim, and keep its .npy files beside it."
        ) from error
    vectors = getattr(model, "wv", model)
    if not isinstance(vectors, KeyedVectors):
        raise InputError(f"{layout.path} is a {type(model).__name__}; give gensim KeyedVectors or Word2Vec.")
    return vectors


def fasttext(layout: Layout) -> Any:
    """KeyedVectors with subwords from a fastText model, checked first: gensim never ends on a cut one."""
    scan(layout.path)
    from gensim.models.fasttext import load_facebook_vectors

    try:
        with logger_at(*GENSIM):
            return load_facebook_vectors(str(layout.path))
    except Exception as error:  # gensim raises a dozen types
        raise _damaged(layout.path, "its sizes disagree") from error


def pick(
    vectors: Any, wanted: Collection[str] | None, first: int = 0, naming: Callable[[str], str] = str
) -> tuple[list[str], Float32[np.ndarray, "V D"]]:
    """The `selected` words of gensim's `vectors`, with their rows, in the table's order.

    A model with subwords has a vector for every word, so its rows are in the order of `wanted`.
    """
    if wanted is None:
        return list(vectors.index_to_key), np.array(vectors.vectors, dtype=np.float32)
    keys = ((str(word), None) for word in vectors.index_to_key)
    row_of = {name: row for row, name, _ in selected(keys, wanted, first, naming)}
    if not getattr(vectors, "bucket", 0):
        return list(row_of), np.asarray(vectors.vectors[list(row_of.values())], dtype=np.float32)
    words = list(dict.fromkeys([*wanted, *row_of]))
    with logger_at(*GENSIM):
        rows = [
            vectors.vectors[row_of[word]] if word in row_of else vectors.get_vector(word) for word in words
        ]
    return words, np.array(rows, dtype=np.float32).reshape(len(words), vectors.vector_size)


def scan(path: Path) -> tuple[int, int, list[str]]:
    """The number of words, the width and the first five words of a fastText model.

    InputError unless the model is whole, unsupervised and not quantized.

    Layout (args.cc and dictionary.cc of fastText): [magic, version,] 12 settings, a double; sizes; words;
    matrix.
    """
    with path.open("rb") as file:
        new = file.read(4) == FASTTEXT_MAGIC
        file.seek(8 if new else 0)
        try:
            return _scan(path, file, new)
        except InputError:
            raise
        except (EOFError, struct.error) as error:
            raise _damaged(path, "the file ends early") from error
        except (OSError, OverflowError, ValueError) as error:  # a size that no file has
            raise _damaged(path, "its sizes disagree") from error


def _scan(path: Path, file: BufferedReader, new: bool) -> tuple[int, int, list[str]]:
    dim = _unpack(file, "<12id")[0]
    count, _, labels, _ = _unpack(file, "<3iq")
    pruned = max(0, _unpack(file, "<q")[0]) if new else 0
    if labels:
        raise InputError(f"{path} is a fastText classifier; give a model trained with skipgram or cbow.")
    first: list[str] = []
    start, used = file.tell(), 0
    for word, _ in records(file, lambda held, at: held.find(b"\0", at), 9, count):
        used += len(word) + 10
        if len(first) < 5:
            first.append(word.decode("utf-8", "backslashreplace"))
    file.seek(start + used + 8 * pruned)
    _check_matrix(path, file, new, dim)
    return count, dim, first


def _check_matrix(path: Path, file: BufferedReader, new: bool, dim: int) -> None:
    if new and _unpack(file, "<?")[0]:
        raise InputError(
            f"{path} is a quantized fastText model (.ftz), which gensim can't read; give the full .bin."
        )
    rows, width = _unpack(file, "<2q")
    if width != dim:
        raise _damaged(path, f"its matrix has width {width}, and its settings {dim}")
    if file.tell() + 4 * rows * width > path.stat().st_size:
        raise _damaged(path, f"its matrix of {rows:,} rows is cut")


def _unpack(file: BufferedReader, form: str) -> tuple[Any, ...]:
    return struct.unpack(form, file.read(struct.calcsize(form)))


def _damaged(path: Path, why: str) -> InputError:
    return InputError(f"{path} is a damaged fastText model: {why}; get the file again.")
