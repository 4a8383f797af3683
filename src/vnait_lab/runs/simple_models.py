"""The simple models of `vnait compare` on nine sets with few labels, beside a method's committed records.

    VNAIT_DATA=DIR python -m vnait_lab.runs.simple_models [--method vnait] [--shots 16] [--seeds 10]

The draws of rows are those of the records, whose own baselines knew no places and no n-grams of letters.
Printed is one table: the score of the method and of each simple model, mean over the draws with its 95 %
interval; then the method minus each, paired by draw.
"""

import argparse
import os
from collections.abc import Iterator

from vnait.data.vocabulary import Vocabulary
from vnait.shared.statistics import Interval, interval, paired
from vnait.train.baselines import BASELINES, fit_baseline
from vnait.train.run import READS_VECTORS
from vnait_lab.records import read
from vnait_lab.suites.few_labels import RUN, SETS, plan_of

BySeed = dict[int, float]


def scores(name: str, data: str, shots: int, seeds: int) -> dict[str, BySeed]:
    """The score of each simple model on a set, by seed."""
    plan = plan_of(name, data, ("none",), (shots,), range(seeds), RUN)
    words: Vocabulary = plan.vocabulary(0)  # the same for all seeds, since the training texts are
    by_model: dict[str, BySeed] = {model: {} for model in BASELINES}
    for seed in plan.seeds:
        table, test = plan.rows(shots, seed)
        for model in BASELINES:
            vectors = words if model in READS_VECTORS else None
            fitted = fit_baseline(
                model, table, test, vectors, tokenization=SETS[name].tokenization, seed=seed
            )
            assert fitted.record is not None
            by_model[model][seed] = fitted.record.metrics[SETS[name].metric]
    return by_model


def of_method(name: str, method: str, shots: int) -> BySeed:
    """The committed scores of a method on a set, by seed."""
    return {
        record.seed: record.metrics[SETS[name].metric]
        for record in read(f"few_labels/{name}")
        if record.method == method and record.data["shots"] == shots
    }


def lines(name: str, method: str, by_model: dict[str, BySeed], known: BySeed) -> Iterator[str]:
    """The two rows of a set in the table."""
    written = [_points(interval(list(known.values())))]
    written += [_points(interval(list(values.values()))) for values in by_model.values()]
    yield f"| {name} | {' | '.join(written)} |"
    minus = [_points(interval(paired(known, values)), sign="+") for values in by_model.values()]
    yield f"| {method} minus it | | {' | '.join(minus)} |"


def _points(value: Interval, sign: str = "") -> str:
    return value.times(100).written("{:" + sign + ".1f}")


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--method", default="vnait")
    parser.add_argument("--shots", type=int, default=16)
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--sets", default=",".join(SETS))
    arguments = parser.parse_args()
    data = os.environ.get("VNAIT_DATA")
    if data is None:
        parser.error("set VNAIT_DATA to a folder with one folder per set (train.csv and test.csv).")
    print(f"| set | {arguments.method} | {' | '.join(BASELINES)} |", flush=True)
    print("|---" * (2 + len(BASELINES)) + "|", flush=True)
    for name in arguments.sets.split(","):
        by_model = scores(name, data, arguments.shots, arguments.seeds)
        known = of_method(name, arguments.method, arguments.shots)
        print("\n".join(lines(name, arguments.method, by_model, known)), flush=True)


if __name__ == "__main__":
    main()
