"""What all methods on nine sets cost in core hours, from recorded seconds and measured ratios.

    python benchmarks/scale.py [CORES ...]

A training of the few-label suite has 150 steps whatever the number of labels. Its seconds are those that the
records of `vnait` have, by set; those of the other methods follow by their ratios at 128 tokens in
benchmarks/methods.md, and methods without a ratio count as much as the dearest `vnait`. Baselines take less
than a second.

The last line is of one epoch over a corpus of a billion tokens, from steps of `vnait` measured here.
"""

import re
import sys
import time
from pathlib import Path
from statistics import mean

import torch

from vnait import VnaitConfig, VnaitForSequenceClassification
from vnait.positions.methods import METHODS
from vnait.results import record
from vnait_lab.suites.few_labels import SETS, SHOTS, SPLITS

ROOT = Path(__file__).parents[1]
KNOWN = "vnait"  # the method with records on every set


def ratios() -> dict[str, float]:
    """Training steps in units of `none`'s, by method, at 128 tokens."""
    page = (ROOT / "benchmarks" / "methods.md").read_text(encoding="utf-8")
    rows = page.split("T = 1,024")[0]
    found = re.findall(r"^\| (\S+) \| [\d.]+ \([^)]*\) \| ([\d.]+) \(", rows, re.M)
    return {name: float(ratio) for name, ratio in found}


def seconds(name: str) -> float:
    """Of a training of KNOWN on the set, the mean over its records."""
    found = record.read(ROOT / "studies" / "records" / "nine_sets" / "rest" / name / "records.jsonl")
    return mean(one.seconds for one in found if one.method == KNOWN)


def tokens_per_second(length: int = 128, batch: int = 32, steps: int = 10) -> float:
    """That one thread trains with `vnait`, in texts of one length."""
    torch.set_num_threads(1)
    torch.manual_seed(0)
    config = VnaitConfig(vocab_size=30_000, num_labels=2)
    model = VnaitForSequenceClassification(config)
    optimizer = torch.optim.AdamW(model.parameters(), fused=True)
    ids, labels = torch.randint(2, config.vocab_size, (batch, length)), torch.randint(2, (batch,))
    started = 0.0
    for step in range(-2, steps):
        if step == 0:
            started = time.process_time()
        model(input_ids=ids, labels=labels).loss.backward()
        optimizer.step()
        optimizer.zero_grad()
    return steps * ids.numel() / (time.process_time() - started)


def main(cores: list[int]) -> None:
    """Print a line per set, the total, and hours by number of cores."""
    known = ratios()
    dear = max(ratio for name, ratio in known.items() if name.startswith("vnait"))
    catalogue = sum(known.get(name, dear) for name in METHODS)
    print(f"{len(METHODS)} methods cost {catalogue:.1f} times none, {catalogue / len(METHODS):.2f} each")
    print("| set | seconds per run, mean | runs | core hours |\n|---|---|---|---|")
    hours, runs, longest = 0.0, 0, 0.0
    for name, one in SETS.items():
        none = seconds(name) / known[KNOWN]
        times = sum(shots <= one.most for shots in SHOTS) * SPLITS
        here = none * catalogue * times / 3600
        print(f"| {name} | {none * catalogue / len(METHODS):.0f} | {times * len(METHODS):,} | {here:.1f} |")
        hours, runs = hours + here, runs + times * len(METHODS)
        longest = max(longest, none * max(known.values()))
    print(f"| all | {hours * 3600 / runs:.0f} | {runs:,} | {hours:.1f} |")
    for count in cores:
        print(f"{count} cores: {hours / count:.1f} hours")
    print(f"longest run: {longest:.0f} s")
    speed = tokens_per_second()
    print(f"{speed:,.0f} tokens per second: {1e9 / speed / 3600:.0f} core hours for a billion tokens, once")


if __name__ == "__main__":
    main([int(one) for one in sys.argv[1:]] or [1, 2, 16, 128])
