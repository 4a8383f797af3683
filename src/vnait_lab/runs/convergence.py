"""How many steps a method needs: does learning with structured places converge faster?

    VNAIT_DATA=DIR python -m vnait_lab.runs.convergence [--sets trec,splice,mr] [--seeds 3]

Each training has its own number of steps, with the usual schedule to the end, so that each is the best use of
these steps; no linear part is mixed in. All methods learn from the same rows, 64 per class, and test.csv is
only scored. Records go to studies/records/convergence; recorded runs are not repeated.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import pairwise
from math import log2

from vnait.results.record import Record
from vnait.shared.statistics import Interval, interval
from vnait.train.run import Run
from vnait_lab.records import path_of
from vnait_lab.rules import clear
from vnait_lab.runs import data_folder, parser, run_plans
from vnait_lab.study import Verdict
from vnait_lab.suites.few_labels import plan_of

METHODS_RUN = ("none", "sinusoidal", "rope", "alibi", "vnait")
STEPS = (25, 50, 100, 200, 400, 800)
SHOTS = 64
ENOUGH = 0.95  # of the best accuracy
RUN = Run(validation=0, bag=0.0)


def curves(records: Sequence[Record]) -> dict[tuple[str, str, int], dict[int, float]]:
    """(set, method, seed) -> steps -> accuracy, of those that ran with every number of steps."""
    every: dict[tuple[str, str, int], dict[int, float]] = {}
    for record in records:
        if "steps" in record.run:  # a comparison has baselines, too
            curve = every.setdefault((str(record.data["name"]), record.method, record.seed), {})
            curve[int(record.run["steps"])] = float(record.metrics["accuracy"])
    return {key: dict(sorted(curve.items())) for key, curve in every.items() if len(curve) == len(STEPS)}


def steps_to(wanted: float, curve: Mapping[int, float]) -> float:
    """log2 of the steps after which a curve has this accuracy, which it must reach; accuracy is linear in
    log2(steps) between two trainings.

    >>> round(2 ** steps_to(0.95, {100: 0.45, 200: 0.95, 400: 1.0}))
    200
    """
    points = [(log2(steps), score) for steps, score in sorted(curve.items())]
    if points[0][1] >= wanted:
        return points[0][0]
    (left, low), (right, high) = next(two for two in pairwise(points) if two[1][1] >= wanted)
    return left + (right - left) * (wanted - low) / (high - low)


def verdict(records: Sequence[Record], method: str) -> Verdict:
    """The claim: on each set `method` needs fewer steps than every other to 95 % of the final accuracy of the
    worse of the two, paired by seed.
    """
    every, words = curves(records), []
    leads: list[Interval] = []
    for name in dict.fromkeys(name for name, _, _ in every):
        longer: dict[str, dict[int, float]] = {}
        for (where, rival, seed), curve in every.items():
            ours = every.get((name, method, seed))
            if where == name and rival != method and ours:
                wanted = ENOUGH * min(max(curve.values()), max(ours.values()))
                longer.setdefault(rival, {})[seed] = steps_to(wanted, curve) - steps_to(wanted, ours)
        if not longer:
            return Verdict("undecided", f"{name}: {method} and another method were not both run to the end")
        doublings = {rival: interval(list(by_seed.values())) for rival, by_seed in longer.items()}
        nearest = min(doublings, key=lambda rival: doublings[rival].mean)
        leads += doublings.values()
        mean, low, high = doublings[nearest]
        factor = Interval(2**mean, *(None if end is None else 2**end for end in (low, high)))
        words.append(f"{name}: {nearest} needs {factor.written('{:.2f}')} times the steps")
    if not leads:
        return Verdict("undecided", "no method ran with every number of steps")
    return clear(leads, "; ".join(words))


def main() -> None:
    command = parser(__doc__, seeds=3, sets=("trec", "splice", "mr"), methods=METHODS_RUN)
    options = command.parse_args()
    data = data_folder(command)
    plans = (
        plan_of(name, data, options.methods, [SHOTS], range(options.seeds), replace(RUN, steps=steps))
        for name in options.sets
        for steps in STEPS
    )
    run_plans(plans, path_of("convergence"), options.jobs)


if __name__ == "__main__":
    main()
