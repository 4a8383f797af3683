"""What `vnait.data.vectors.load` costs: 20,000 wanted words out of a word2vec binary of 1,000,000 x 300,
beside gensim's full load.

    python benchmarks/vectors.py                  about 1.2 GB in the temporary directory, deleted afterwards
    python benchmarks/vectors.py --words 50000    the same, smaller

Every measurement is a fresh process and its own peak (ru_maxrss). This one imports nothing large: on Linux, a
child's peak starts at its parent's.
"""

import argparse
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

DIM, PAIRS = 300, 3

WRITE = """
import sys
import numpy as np
path, words, dim = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
rng = np.random.default_rng(0)
with open(path, "wb") as file:
    file.write(f"{words} {dim}\\n".encode())
    for start in range(0, words, 5000):
        rows = np.empty(min(5000, words - start), dtype=[("word", "S9"), ("vector", "<f4", (dim,))])
        rows["word"] = [f"w{start + row:07d} ".encode() for row in range(len(rows))]
        rows["vector"] = rng.standard_normal((len(rows), dim), dtype=np.float32)
        file.write(rows.tobytes())
"""

# Both arms and the baseline import the same; only the middle differs.
MEASURE = """
import resource, sys, time
import numpy as np
import vnait.data.vectors
{imports}
path, words, wanted = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
start = time.perf_counter()
{load}
seconds = time.perf_counter() - start
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024, seconds)
"""
OURS = """
asked = [f"w{row:07d}" for row in range(0, words, words // wanted)][:wanted]
start = time.perf_counter()
found = vnait.data.vectors.load(path, asked)
assert found.table.shape == (wanted, 300) and found.words == asked
"""
GENSIM = """
found = KeyedVectors.load_word2vec_format(path, binary=True)
assert found.vectors.shape == (words, 300)
"""
IMPORT_GENSIM = "from gensim.models import KeyedVectors"


def child(code: str, *arguments: object) -> list[float]:
    command = [sys.executable, "-c", code, *map(str, arguments)]
    return [
        float(part)
        for part in subprocess.run(command, check=True, capture_output=True, text=True).stdout.split()
    ]


def measure(load: str, imports: str, *arguments: object) -> list[float]:
    """Peak MB and seconds of one fresh process."""
    return child(MEASURE.format(load=load, imports=imports), *arguments)


def compare(path: Path, words: int, wanted: int) -> None:
    child(WRITE, path, words, DIM)
    arguments = (path, words, wanted)
    baseline = statistics.median(measure("pass", "", *arguments)[0] for _ in range(PAIRS))
    pairs = [
        (measure(OURS, "", *arguments), measure(GENSIM, IMPORT_GENSIM, *arguments)) for _ in range(PAIRS)
    ]
    kept = wanted * DIM * 4 / 2**20
    beyond = max(ours[0] for ours, _ in pairs) - baseline
    print(f"file                      {path.stat().st_size / 2**20:10.1f} MB, {words:,} x {DIM}")
    print(f"baseline (imports)        {baseline:10.1f} MB")
    print(f"kept rows                 {kept:10.1f} MB, {wanted:,} words")
    print(f"peak beyond the baseline  {beyond:10.1f} MB (largest of {PAIRS})")
    print(f"ratio to the kept rows    {beyond / kept:10.2f}")
    print(f"peak of gensim, all rows  {statistics.median(other[0] for _, other in pairs):10.1f} MB")
    print(f"seconds, ours             {statistics.median(ours[1] for ours, _ in pairs):10.2f}")
    print(f"seconds, gensim           {statistics.median(other[1] for _, other in pairs):10.2f}")
    print(
        f"time, ours / gensim       {statistics.median(ours[1] / other[1] for ours, other in pairs):10.3f} "
        "(median of pairs)"
    )


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--words", type=int, default=1_000_000, help="rows of the file; a fiftieth of them is asked for"
    )
    words = parser.parse_args().words
    with tempfile.TemporaryDirectory() as folder:
        compare(Path(folder) / "vectors.bin", words, max(1, words // 50))


if __name__ == "__main__":
    main()
