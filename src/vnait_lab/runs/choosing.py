"""How much accuracy the advice of `vnait compare` gives away with 16 labels, by the records of nine sets.

    python -m vnait_lab.runs.choosing [--draws 3,5,10] [--samples 60]

A model is chosen on the validation rows of a few of the ten draws, by three rules. Its loss is the mean test
score over all draws of the model that is best there, minus its own, in points. Printed is the mean loss over
sets and samples of draws, the share of losses above 3 points, and the largest mean loss of a set.
"""

import argparse
from collections.abc import Callable
from random import Random
from statistics import fmean

from vnait.results.record import Record
from vnait.results.results import TIE, Results
from vnait_lab.records import read, where
from vnait_lab.suites.few_labels import SETS

BAD = 3.0  # points
SHOTS = 16  # labels per class; with more, not all methods have all draws
Rule = Callable[[Results], str | None]


def best_mean(results: Results) -> str | None:
    """The method with the best mean on the validation rows."""
    return results.first(results.methods)


def within_a_point(results: Results) -> str | None:
    """A simple model, if one is at most a point behind that mean, else the Transformer with the best one."""
    scores = {method: results.validation(method) or 0.0 for method in results.methods}
    near = [method for method, score in scores.items() if max(scores.values()) - score <= TIE]
    simple = [method for method in near if not results.is_transformer(method)]
    return results.first(simple or near)


RULES: dict[str, Rule] = {
    "the cheapest within one standard error (today)": lambda results: results.best,
    "a simple model within one point, else the best mean": within_a_point,
    "the best mean": best_mean,
}


def losses(records: list[Record], draws: int, samples: int) -> dict[str, list[float]]:
    """Rule -> its loss in each sample of draws."""
    seeds = sorted({record.seed for record in records})
    methods = list(dict.fromkeys(record.method for record in records))
    truth = {
        method: 100 * fmean(record.metrics["accuracy"] for record in records if record.method == method)
        for method in methods
    }
    random = Random(0)
    by_rule: dict[str, list[float]] = {rule: [] for rule in RULES}
    for _ in range(samples if draws < len(seeds) else 1):
        chosen = random.sample(seeds, draws)
        results = Results(
            records=[record for record in records if record.seed in chosen],
            methods=methods,
            shots=(records[0].data["shots"],),
            reference=methods[-1],
        )
        for name, rule in RULES.items():
            by_rule[name].append(max(truth.values()) - truth[str(rule(results))])
    return by_rule


def complete(records: list[Record]) -> bool:
    """Whether all methods, a simple one and a Transformer without positions among them, have all draws."""
    counts = [[record.method for record in records].count(method) for method in {r.method for r in records}]
    return len(counts) > 1 and set(counts) == {10} and any(record.method == "none" for record in records)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--draws", default="3,5,10")
    parser.add_argument("--samples", type=int, default=60)
    arguments = parser.parse_args()
    files = {
        f"{name}, {situation}": where(read(f"nine_sets/{situation}/{name}"), shots=SHOTS)
        for situation in ("rest", "none")
        for name in SETS
    }
    files = {name: records for name, records in files.items() if complete(records)}
    print(f"{len(files)} comparisons: {'; '.join(files)}\n")
    print("| draws | rule | mean loss | above 3 points | worst set |")
    print("|---|---|---|---|---|")
    for draws in map(int, arguments.draws.split(",")):
        by_set = [losses(records, draws, arguments.samples) for records in files.values()]
        for rule in RULES:
            values = [of_set[rule] for of_set in by_set]
            every = [loss for of_set in values for loss in of_set]
            share = fmean(loss > BAD for loss in every)
            worst = max(fmean(of_set) for of_set in values)
            print(f"| {draws} | {rule} | {fmean(map(fmean, values)):.2f} | {share:.0%} | {worst:.1f} |")


if __name__ == "__main__":
    main()
