"""Why `vnait` was behind its control on masked tokens: its weights, its neighbours, or the scale of s?

    VNAIT_DATA=DIR python -m vnait_lab.runs.masked_words [--texts ag_news] [--starts 1.0,0.03] [--seeds 2]

The setting is the language suite's, at its larger learning rate; the texts are none of the suite's: AG News
in letters and TNEWS in characters. Printed are validation losses at 64, 256 and 2,048 tokens, and which share
of tokens has a weight below .99 in a training step: the largest, and the last. A line per text, start of s
(`Spatial`) and variant:

    learned          `vnait` with a gate that learns, as in a classifier
    plain            the same, but its neighbours are those of the text, whatever the weights
    vnait            as built for masked tokens: its gate learns nothing, so that all weights are 1
    vnait-uniform    the control
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from itertools import product
from pathlib import Path
from statistics import fmean
from typing import Any

import pandas as pd
from torch import Tensor, nn

from vnait.positions.coordinates import Elastic
from vnait.positions.encodings import Spatial
from vnait.positions.inputs import Neighbours
from vnait.shared.processes import one_thread
from vnait_lab.runs import data_folder, parser
from vnait_lab.suites.language import QUICK, TRAINED, Corpus, Setting, fit_at, loss_at, tasks_of, tenths

LENGTHS = (TRAINED, 256, 2_048)
ALMOST = 0.99  # a weight that still counts one
TEXTS = {"ag_news": (("train.csv",), "letters"), "tnews": (("unlabeled.csv", "train.csv"), "characters")}


def learn(method: Any) -> None:
    """Let the gate learn."""
    part_of(method, Elastic).gate.requires_grad_(True)


def learn_beside_plain_neighbours(method: Any) -> None:
    """Let the gate learn, and take the neighbours of the text itself."""
    learn(method)
    method.inputs = Neighbours(method.inputs.inputs, list(method.inputs.views))


VARIANTS: dict[str, tuple[str, Callable[[Any], None] | None]] = {
    "learned": ("vnait", learn),
    "plain": ("vnait", learn_beside_plain_neighbours),
    "vnait": ("vnait", None),
    "vnait-uniform": ("vnait-uniform", None),
}


def part_of(method: nn.Module, kind: type[nn.Module]) -> Any:
    """The first part of this kind; None without one."""
    return next((part for part in method.modules() if isinstance(part, kind)), None)


def prepare(model: Any, *, start: float, change: Callable[[Any], None] | None, shares: list[float]) -> None:
    """Let s start at `start`, change the method, and write down the share of weights below `ALMOST`."""
    method = model.model.method
    direct = part_of(method, Spatial).direct
    direct.weight.data.mul_(start / direct.start)
    if change is not None:
        change(method)

    def look(_: nn.Module, __: object, at: Tensor) -> None:
        if model.training:
            shares.append(float((at[..., 3] < ALMOST).float().mean()))

    if (elastic := part_of(method, Elastic)) is not None:
        elastic.register_forward_hook(look)


def corpus_of(folder: Path, name: str) -> Corpus:
    """The masked tokens of a set's texts."""
    files, unit = TEXTS[name]
    texts = pd.concat([pd.read_csv(folder / name / file)["text"] for file in files])
    return tasks_of(name, tenths("\n".join(texts)), unit)[f"masked-{name}"]


def row(text: Corpus, start: float, variant: str, seeds: int, setting: Setting) -> str:
    """A line of the table: means over the seeds."""
    method, change = VARIANTS[variant]
    rate = setting.learning_rate * setting.faster
    losses, most, last = [], [], []
    for seed in range(seeds):
        shares = [0.0]
        model = fit_at(
            method, text, seed, setting, rate, partial(prepare, start=start, change=change, shares=shares)
        )
        losses.append([loss_at(model, text, text.validation, length, setting, seed)[0] for length in LENGTHS])
        most.append(max(shares))
        last.append(shares[-1])
    shown = " / ".join(f"{fmean(at):.3f}" for at in zip(*losses, strict=True))
    return (
        f"{start:5.2f}  {variant:14} {shown}   below {ALMOST}: {fmean(most):.3f}, at last {fmean(last):.3f}"
    )


def main() -> None:
    command = parser(
        __doc__, seeds=2, jobs=False, quick="100 steps", texts=tuple(TEXTS), starts=("1.0", "0.03")
    )
    options = command.parse_args()
    folder, setting = data_folder(command), QUICK if options.quick else Setting()
    with one_thread():
        for name in options.texts:
            text = corpus_of(folder, name)
            print(f"{name}, validation loss at {', '.join(map(str, LENGTHS))} tokens", flush=True)
            for start, variant in product(map(float, options.starts), VARIANTS):
                print(row(text, start, variant, options.seeds, setting), flush=True)


if __name__ == "__main__":
    main()
