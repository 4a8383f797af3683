"""The peak memory and the time that each small file takes which unpacks to gigabytes.

python tests/attack/bombs.py             # prints a table: file, bytes, seconds, peak in MB, answer
python tests/attack/bombs.py OTHER/src   # the same with the package of another checkout
"""

from __future__ import annotations

import bz2
import gzip
import lzma
import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

sys.path.insert(0, str(Path(__file__).parents[1]))
from test_file_kinds import HEAD, VALUE, _inserted, cells, far_row, open_document

GIB = 2**30
SPACE = 3 * GIB  # bytes of addresses that a reader has
LONGEST = 120  # seconds that it has
READ = """
import sys
from vnait import data
try:
    answer = f"read: {len(data.read(sys.argv[1]).texts):,} rows"
except BaseException as error:
    answer = f"{type(error).__name__}: {error}"
print(next(line for line in open("/proc/self/status") if line.startswith("VmHWM")).split()[1])
print(" ".join(answer.split()).replace(sys.argv[1], "it")[:90])
"""
READ_VECTORS = READ.replace("import data", "import vectors").replace(
    "data.read(sys.argv[1]).texts", "vectors.load(sys.argv[1]).words"
)


def wide_rows(path: Path) -> None:
    _inserted(path, b'<row><c r="XFD1"><v>1</v></c></row>' * 200_000)


def column(values: Any, path: Path) -> None:
    pq.write_table(pa.table({"text": values, "label": ["x", "y"] * (len(values) // 2)}), path)


def packed(packing: Any, head: bytes, line: bytes, path: Path, size: int = 3 * GIB) -> None:
    """A packed file that begins with `head` and has the same lines again and again, in many members."""
    part = line * (2**22 // len(line))
    member = packing.compress(part)
    with path.open("wb") as file:
        file.write(packing.compress(head))
        for _ in range(size // len(part)):
            file.write(member)


ROW, ROWS = b"a,b\n", b"text,label\n"
TEXT = "a film " * 1400
BOMBS: dict[str, Callable[[Path], object]] = {
    "far row.xlsx": far_row,
    "far cells.xlsx": wide_rows,
    "repeated row.ods": open_document(
        cells(*HEAD),
        f'<table:table-row table:number-rows-repeated="1000000000">{VALUE.format(9)}</table:table-row>',
    ),
    "spaces.ods": open_document(cells(*HEAD), cells("a<text:s text:c='2000000000'/>", "x")),
    "repeated cell.ods": open_document(
        cells(*HEAD), f"<table:table-row>{VALUE.format(2_000_000_000)}</table:table-row>"
    ),
    "empty rows.ods": open_document(cells(*HEAD), cells(rows=2_000_000_000), cells("a", "x")),
    "dictionary.parquet": lambda path: column(pa.array([TEXT] * 300_000).dictionary_encode(), path),
    "text.csv.zst": lambda path: pa.CompressedOutputStream(str(path), "zstd").write(b"a" * GIB),
    "rows.csv.gz": partial(packed, gzip, ROWS, ROW),
    "rows.csv.bz2": partial(packed, bz2, ROWS, ROW),
    "rows.csv.xz": partial(packed, lzma, ROWS, ROW),
    "52 million.csv.xz": partial(packed, lzma, ROWS, ROW, size=52_000_000 * len(ROW)),
    "line.csv.gz": partial(packed, gzip, ROWS, b"a" * 4096),
    "values.json.gz": partial(packed, gzip, b'[\n{"text": [', b"[],\n"),
    "nested.jsonl": lambda path: path.write_bytes(
        b'{"text": ' + b'{"a":' * 10**6 + b"1" + b"}" * 10**6 + b"}"
    ),
    "line.vec.gz": partial(packed, gzip, b"film ", b"1 " * 2048),
    "word.bin.gz": partial(packed, gzip, b"9 9\n", b"a" * 4096),
}


def measured(path: Path, source: Path) -> tuple[float, float, str]:
    """Seconds, the peak in MB, and the answer of a process that reads with the package in `source`."""
    code = READ_VECTORS if path.suffixes[0] in (".vec", ".bin") else READ
    started = time.monotonic()
    process = subprocess.Popen(
        [sys.executable, "-c", code, path],
        env={**os.environ, "PYTHONPATH": str(source), "OMP_NUM_THREADS": "1"},
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        preexec_fn=limit,
        text=True,
    )
    answer = process.communicate()[0].splitlines() or ["nan", f"ended by {process.returncode}"]
    return time.monotonic() - started, float(answer[0]) / 1024, answer[-1]


def limit() -> None:
    resource.setrlimit(resource.RLIMIT_AS, (SPACE, SPACE))
    resource.setrlimit(resource.RLIMIT_CPU, (LONGEST, LONGEST))


def main(source: str = str(Path(__file__).parents[2] / "src")) -> None:
    print(f"{'file':20}{'bytes':>12}{'seconds':>9}{'peak MB':>9}  answer")
    with tempfile.TemporaryDirectory() as folder:
        for name, write in BOMBS.items():
            path = Path(folder, name)
            write(path)
            seconds, peak, answer = measured(path, Path(source))
            print(f"{name:20}{path.stat().st_size:12,}{seconds:9.1f}{peak:9.0f}  {answer}", flush=True)
            path.unlink()


if __name__ == "__main__":
    main(*sys.argv[1:])
