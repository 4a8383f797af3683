"""Vectors to a file, written whole or not at all."""

import gzip
import sys
from collections.abc import Callable
from pathlib import Path
from typing import BinaryIO

from vnait.data.vectors.table import Vectors
from vnait.shared.errors import InputError, has_surrogate
from vnait.shared.files import atomic_file


def save(vectors: Vectors, path: str | Path) -> None:
    """Write `vectors` to `path` in the format of its ending; an old file stays until the new one is whole.

    .bin word2vec binary; .txt and .vec word2vec text, nine digits per number, which restore every float32;
    both also with .gz; .kv gensim's KeyedVectors in one file. InputError for another ending, or for a word
    that the format can't store.

    >>> import numpy as np, tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     save(Vectors(["film"], np.array([[0.1, 2]], dtype=np.float32), "by hand"), Path(folder, "v.vec"))
    ...     print(Path(folder, "v.vec").read_text())
    1 2
    film 0.100000001 2
    <BLANKLINE>
    """
    target = Path(path)
    packed = target.suffix == ".gz"
    kind = target.with_suffix("").suffix if packed else target.suffix
    if kind == ".kv" and not packed:
        with atomic_file(target) as draft:
            _write_keyed(vectors, draft)
    elif kind in _WRITERS:
        _check_words(vectors, target)
        with atomic_file(target) as draft, _created(draft, packed) as file:
            _WRITERS[kind](vectors, file)
    else:
        raise InputError(
            f"{target} has no known ending; end it with .bin, .txt or .vec (each also .gz), or .kv."
        )


def _write_binary(vectors: Vectors, file: BinaryIO) -> None:
    file.write(f"{len(vectors.words)} {vectors.dim}\n".encode())
    for word, row in zip(vectors.words, vectors.table, strict=True):
        file.write(word.encode() + b" " + row.astype("<f4").tobytes())


def _write_text(vectors: Vectors, file: BinaryIO) -> None:
    file.write(f"{len(vectors.words)} {vectors.dim}\n".encode())
    line = " ".join(["%s"] + ["%.9g"] * vectors.dim) + "\n"
    for word, row in zip(vectors.words, vectors.table, strict=True):
        file.write((line % (word, *row.tolist())).encode())


def _write_keyed(vectors: Vectors, draft: Path) -> None:
    from gensim.models import KeyedVectors

    keyed = KeyedVectors(vector_size=vectors.dim)
    keyed.add_vectors(vectors.words, vectors.table)
    # gensim would put a large table into a second file, and two files can't be replaced at once.
    keyed.save(str(draft), sep_limit=sys.maxsize)


def _created(draft: Path, packed: bool) -> BinaryIO:
    # Level 1: higher levels are slower and hardly smaller. No time stamp: equal vectors give equal bytes.
    return gzip.GzipFile(draft, "wb", compresslevel=1, mtime=0) if packed else draft.open("wb")  # type: ignore[return-value]


def _check_words(vectors: Vectors, target: Path) -> None:
    for word in vectors.words:
        if not word or any(mark in word for mark in " \t\n\r\v\f"):
            raise InputError(
                f"{target}: the word {word!r} is empty or has white space; save as .kv, which allows that."
            )
        if has_surrogate(word):
            raise InputError(
                f"{target}: the word {word!r} is not valid Unicode (a lone surrogate); leave it out."
            )


_WRITERS: dict[str, Callable[[Vectors, BinaryIO], None]] = {
    ".bin": _write_binary,
    ".txt": _write_text,
    ".vec": _write_text,
}
