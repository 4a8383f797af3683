"""Which parts fill the gradient, by method: does a learned coordinate take the steps of the rest?

    VNAIT_DATA=DIR python -m vnait_lab.runs.gradients [--sets splice] [--shots 64] [--seeds 3] [--methods a,b]

Per method with learned coordinates, encodings or biases: the mean share of each part in the squared norm of
the gradient before it is clipped, over the first and the last third of a training without the linear part.
"""

import argparse
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from statistics import fmean

from vnait.positions.gradients import PARTS
from vnait.train.fitting import fit
from vnait.train.tracking import Status
from vnait_lab.runs import data_folder
from vnait_lab.suites.few_labels import RUN, plan_of

METHODS = (
    "vnait",
    "vnait-uniform",
    "vnait-warp",
    "vnait-context",
    "vnait-causal",
    "vnait-paper",
    "lpi",
    "prefix",
    "cope",
    "cable",
    "fire",
    "kerple",
    "t5",
    "learned",
    "learned-frequencies",
)


def shares(statuses: Sequence[Status]) -> dict[str, float]:
    """The mean share of each part over some steps."""
    return {part: fmean(status.gradient.get(part, 0.0) for status in statuses) for part in PARTS}


def statuses_of(method: str, name: str, data: Path, shots: int, seeds: int) -> Iterator[list[Status]]:
    """The steps of one training per draw of labelled rows."""
    plan = plan_of(name, data, (method,), (shots,), range(seeds), RUN)
    words = plan.vocabulary(0)
    for seed in plan.seeds:
        pool = plan.split(seed)[0]
        statuses: list[Status] = []
        rows = pool.select(pool.shots(count=shots, seed=seed))
        fit(replace(RUN, method=method, seed=seed, bag=0.0), rows, words, callback=statuses.append)
        yield statuses


def _thirds(statuses: list[Status]) -> list[list[Status]]:
    size = len(statuses) // 3
    return [statuses[:size], statuses[size:-size], statuses[-size:]]


def main() -> None:
    """Print two lines per method."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--sets", default="splice")
    parser.add_argument("--shots", type=int, default=64)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--methods", default=",".join(METHODS))
    options = parser.parse_args()
    data = data_folder(parser)
    print(f"{'set':8} {'method':20} {'steps':6}", *(f"{part:>11}" for part in PARTS))
    for name in options.sets.split(","):
        for method in options.methods.split(","):
            trainings = list(statuses_of(method, name, data, options.shots, options.seeds))
            for steps, third in (("first", 0), ("last", -1)):
                parts = [shares(_thirds(statuses)[third]) for statuses in trainings]
                means = (fmean(share[part] for share in parts) for part in PARTS)
                print(f"{name:8} {method:20} {steps:6}", *(f"{100 * mean:10.1f}%" for mean in means))


if __name__ == "__main__":
    main()
