"""What reading many short texts takes: peak memory and time, of the table and of its vocabulary's vectors.

    python benchmarks/reading.py [--rows 100000 1000000] [--words 10] [--epochs 1]

A CSV file of texts and labels, of which 20,000 words are drawn, few of them often. Each measurement is a
fresh process: its peak (ru_maxrss) beyond that of its imports, and the processor's seconds. Word2Vec takes 20
epochs in a training, of which the time is proportional and the memory is not.
"""

import argparse
import random
import subprocess
import sys
import tempfile
from pathlib import Path

WORDS = 20_000
START = """
import resource, sys, time
from functools import partial
import gensim.models
from vnait.data import read, vocabulary
vocabulary.word_vectors.train = partial(vocabulary.word_vectors.train, epochs=int(sys.argv[2]))

def peak():
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024

before, started = peak(), time.process_time()
"""
READ = "table = read(sys.argv[1])\n"
LEARN = READ + "vocabulary.learn(table.texts)\n"
END = "print(peak() - before, time.process_time() - started)\n"


def write(path: Path, rows: int, words: int) -> None:
    draw = random.Random(0)
    with path.open("w") as file:
        file.write("text,label\n")
        for row in range(rows):
            text = " ".join(f"w{int(WORDS ** draw.random()) - 1}" for _ in range(words))
            file.write(f"{text},{row % 2}\n")


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--rows", type=int, nargs="+", default=[100_000, 1_000_000])
    parser.add_argument("--words", type=int, default=10)
    parser.add_argument("--epochs", type=int, default=1)
    options = parser.parse_args()
    print("| rows | work | MB beyond the imports | bytes a row | seconds |\n|---|---|---|---|---|")
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "data.csv"
        for rows in options.rows:
            write(path, rows, options.words)
            for name, work in (("table", READ), (f"vectors, {options.epochs} epochs", LEARN)):
                command = [sys.executable, "-c", START + work + END, str(path), str(options.epochs)]
                done = subprocess.run(command, check=True, capture_output=True, text=True).stdout.split()
                memory, seconds = map(float, done)
                print(
                    f"| {rows:,} | {name} | {memory:.0f} | {memory * 2**20 / rows:.0f} | {seconds:.1f} |",
                    flush=True,
                )


if __name__ == "__main__":
    main()
