"""What the anchors of `vnait` are for: the default beside long taus (to 32) and beside no centre, on the tasks that ask for a place.

    python studies/anchors.py [--seeds 1]

Records go to studies/records/anchors; what is there is not run again. The arms are `vnait` but for the features named.
"""

import argparse
from pathlib import Path

from vnait import suites
from vnait.coordinates import Ends, Jitter, Span
from vnait.encodings import Anchors, Centre, Fourier, Spatial
from vnait.injection import LogLength
from vnait.inputs import Fusion, Local
from vnait.method import Method
from vnait.methods import METHODS, Recipe, Size

TASKS = ("middle", "third_from_end")
LONG = (1, 2, 4, 8, 16, 32)
ARMS = {
    "long taus, no centre": lambda: [Fourier(pairs=16), Anchors(taus=LONG)],
    "short taus, no centre": lambda: [Fourier(pairs=16), Anchors()],
    "long taus, centre": lambda: [Fourier(pairs=16), Anchors(taus=LONG), Centre()],
    "short taus, centre": lambda: [Fourier(pairs=16), Anchors(), Centre()],
}


def arm(name: str, size: Size) -> Method:
    return Method(
        coordinates=Jitter(Ends(Span(source="warp")), shift=6.0),
        encoding=Spatial(dim=size.dim, features=ARMS[name](), hidden=(64,), start=1.0),
        inputs=Local(Fusion(dim=size.dim, hidden=16), dim=size.dim, width=9, start=0.1),
        scale=LogLength(mean_length=size.mean_length),
    )


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--seeds", type=int, default=1)
    options = parser.parse_args()
    for name in ARMS:
        METHODS[name] = Recipe(make=lambda size, name=name: arm(name, size), formula=name, source="studies/anchors.py")
    found = suites.run_suite(
        methods=tuple(ARMS),
        tasks=TASKS,
        seeds=range(options.seeds),
        setting=suites.Setting(),
        path=Path(__file__).parent / "records" / "anchors" / "records.jsonl",
        jobs=1,  # other processes would not know the arms
    )
    for row in suites.summary(found):
        scores = " ".join(f"{100 * row[f'accuracy_{length}']:5.1f}" for length in suites.LENGTHS)
        print(f"{row['method']:22} {row['task']:15} {scores}   ({row['seeds']} seeds)")


if __name__ == "__main__":
    main()
