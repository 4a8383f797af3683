"""What `vnait predict` costs: texts per second and peak memory, of files of two sizes, beside another
checkout.

    python benchmarks/predict.py [--texts 20000] [--words 50] [--rounds 3] [--method vnait] [--against SRC]

A classifier of 20,000 words with the default settings, not trained. Each measurement is a fresh process: its
time, without the start-up (that of a file of ten texts), and its peak (ru_maxrss). SRC is the `src` folder of
another commit, as `git worktree add` makes one; the two take turns.
"""

import argparse
import os
import random
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from statistics import median

HERE = Path(__file__).parent.parent / "src"
WORDS = 20_000

MODEL = """
import sys
import numpy as np
from vnait.train.models import new_model
from vnait.data import tokenizer
from vnait.data.vocabulary import Vocabulary
from vnait.train.predict import Fitted
from vnait.train.run import Run
names = [f"w{number}" for number in range(int(sys.argv[2]))]
table = np.random.default_rng(0).standard_normal((len(names) + 3, 96), dtype=np.float32)
words = Vocabulary(tokenizer(names), table, "random", np.ones(len(table), dtype=np.float32))
model = new_model(words, Run(method=sys.argv[3]), ["a", "b"], [50])
Fitted(model=model, tokenizer=words.tokenizer).save(sys.argv[1])
"""


def write(path: Path, texts: int, words: int) -> None:
    """Texts of 1 to 2 * words - 1 words, of which few are frequent."""
    draw = random.Random(0)
    with path.open("w") as file:
        file.write("text\n")
        for _ in range(texts):
            length = draw.randrange(1, 2 * words)
            file.write(" ".join(f"w{int(WORDS ** draw.random()) - 1}" for _ in range(length)) + "\n")


def measure(source: Path, model: Path, data: Path) -> tuple[float, float, float]:
    """Seconds on the clock, seconds of the processor, and peak MB of one fresh process."""
    command = [sys.executable, "-c", "from vnait.cli import main; main()", "predict", str(model), str(data)]
    started = time.perf_counter()
    process = subprocess.Popen(
        [*command, "--out", str(data) + ".out", "--quiet"],
        env=os.environ | {"PYTHONPATH": str(source)},
        stdout=subprocess.DEVNULL,
    )
    _, status, used = os.wait4(process.pid, 0)
    assert status == 0, command
    return time.perf_counter() - started, used.ru_utime + used.ru_stime, used.ru_maxrss / 1024


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--texts", type=int, default=20_000)
    parser.add_argument("--words", type=int, default=50)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--method", default="vnait")
    parser.add_argument("--against", type=Path)
    options = parser.parse_args()
    sources = [HERE] if options.against is None else [HERE, options.against]
    sizes = {"start-up": 10, "tenth": options.texts // 10, "whole": options.texts}
    with tempfile.TemporaryDirectory() as folder:
        model = Path(folder) / "model"
        subprocess.run([sys.executable, "-c", MODEL, str(model), str(WORDS), options.method], check=True)
        files = {name: Path(folder) / f"{name}.csv" for name in sizes}
        for name, size in sizes.items():
            write(files[name], size, options.words)
        rounds = [
            {
                source: {name: measure(source, model, file) for name, file in files.items()}
                for source in sources
            }
            for _ in range(options.rounds)
        ]
    print(f"{options.texts:,} texts of {options.words} words on average, {options.rounds} rounds, medians")
    rates: dict[Path, list[tuple[float, float]]] = {}
    for source in sources:
        found = [one[source] for one in rounds]
        taken = [[one["whole"][way] - one["start-up"][way] for way in (0, 1)] for one in found]
        rates[source] = [(options.texts / clock, options.texts / used) for clock, used in taken]
        clock, used = (median(rate[way] for rate in rates[source]) for way in (0, 1))
        peaks = ", ".join(f"{name} {median(one[name][2] for one in found):.0f}" for name in sizes)
        print(
            f"{source}: {clock:,.0f} texts per second, {used:,.0f} per second of the processor; peak MB: "
            f"{peaks}"
        )
    if len(sources) > 1:
        pairs = list(zip(*rates.values(), strict=True))
        for way, name in enumerate(("clock", "processor")):
            ratios = sorted(own[way] / other[way] for own, other in pairs)
            print(f"ratio, {name}: {median(ratios):.2f} ({ratios[0]:.2f} to {ratios[-1]:.2f})")


if __name__ == "__main__":
    main()
