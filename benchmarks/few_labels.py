"""Every method and both baselines on six real sets with few labels: one table (methods x sets), written to few_labels.md.

    VNAIT_DATA=DIR python benchmarks/few_labels.py [--seeds 5] [--shots 16,64] [--sets trec,mr] [--methods vnait,rope] [--jobs N]

DIR holds a folder a set with train.csv and test.csv (columns text and label). Rows a class are drawn from train.csv, validation rows among
them; Word2Vec learns from all texts of train.csv without their labels; test.csv is only scored. One set of settings for all: nothing here
was tuned. A stopped run goes on where it was.
"""

import argparse
import os
import sys
from pathlib import Path

from vnait.baselines import BASELINES
from vnait.comparison import Comparison, compare
from vnait.statistics import interval

METHODS = ("none", "sinusoidal", "learned", "vnait", "vnait-uniform", "vnait-paper")
SETS = ("trec", "mr", "subj", "ag_news", "tnews", "cola")
HERE = Path(__file__).parent


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--shots", default="16,64")
    parser.add_argument("--sets", default=",".join(SETS))
    parser.add_argument("--methods", default=",".join(METHODS))
    parser.add_argument("--jobs", type=int)
    parser.add_argument("--out", type=Path, default=Path("runs/few_labels"))
    options = parser.parse_args()
    data = os.environ.get("VNAIT_DATA")
    if data is None:
        sys.exit("Set VNAIT_DATA to the folder of data sets; nothing was run.")
    shots = tuple(int(count) for count in options.shots.split(","))
    found = {name: run(Path(data) / name, shots, options) for name in options.sets.split(",")}
    page = report(found, shots, options.seeds)
    (HERE / "few_labels.md").write_text(page, encoding="utf-8")
    print(page)


def run(folder: Path, shots: tuple[int, ...], options: argparse.Namespace) -> Comparison:
    def watch(done: int, total: int, record: object) -> None:
        print(f"{folder.name}: {done} of {total}", file=sys.stderr)

    return compare(
        str(folder / "train.csv"),
        test=str(folder / "test.csv"),
        methods=tuple(options.methods.split(",")),
        shots=shots,
        seeds=options.seeds,
        out=options.out / folder.name,
        jobs=options.jobs,
        watch=watch,
    )


def report(found: dict[str, Comparison], shots: tuple[int, ...], seeds: int) -> str:
    parts = [
        "# Few labels",
        f"Accuracy, mean over {seeds} seeds with its 95 % bootstrap interval; for CoLA the Matthews correlation, since seven in ten of "
        "its rows are acceptable. Made by `benchmarks/few_labels.py`, whose first lines say how.",
    ]
    for count in shots:
        parts += [f"## {count} labels a class", grid(found, count), "In words:", words(found, count)]
    return "\n\n".join(parts) + "\n"


def grid(found: dict[str, Comparison], count: int) -> str:
    lines = ["| | " + " | ".join(found) + " |", "|---" * (len(found) + 1) + "|"]
    methods = next(iter(found.values())).plan.methods
    for method in (*BASELINES, *methods):
        cells = [cell(comparison, name, method, count) for name, comparison in found.items()]
        lines.append(f"| {method} | " + " | ".join(cells) + " |")
    return "\n".join(lines)


def cell(comparison: Comparison, name: str, method: str, count: int) -> str:
    metric = "mcc" if name == "cola" else "accuracy"
    values = [record.metrics[metric] for record in comparison.of(method, count)]
    mean, low, high = interval(values)
    return f"{mean:.3f}" if low is None else f"{mean:.3f} [{low:.3f}, {high:.3f}]"


def words(found: dict[str, Comparison], count: int) -> str:
    return "\n".join(f"- {name}: {comparison.sentence(count)}" for name, comparison in found.items())


if __name__ == "__main__":
    main()
