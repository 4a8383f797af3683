"""What each positional method costs over none: time and peak memory, forward and a training step, at four
lengths, beside other libraries' rotations and biases in the same encoder.

    python benchmarks/methods.py [NAME ...] [--lengths 20 128 1024 4096] [--rounds 5] [--out
    benchmarks/methods.md] [--json benchmarks/methods.json]

An encoder of 2 layers, width 128, 4 heads, on 1,024 tokens in a batch or one text, one thread, float32.
Times, of the process's own: in every round each method runs once, and what is printed is the median over
rounds of the ratio to `none` of the same round, so that a machine that slows down slows all of them, with the
least and the greatest of them; texts of 128 tokens or less have five times as many rounds. Memory: the most
that PyTorch held at once beside the model and its input, by its profiler, as a ratio to `none`'s.
"""

import argparse
import gc
import json
import os
import platform
import time
from collections.abc import Callable
from itertools import accumulate
from pathlib import Path
from statistics import median
from typing import Any

import torch
from torch import Tensor, nn

from peers import PEERS
from vnait.model.backbone import Encoder
from vnait.positions.building import build
from vnait.positions.methods import METHODS
from vnait.positions.recipe import Size

DIM, HEADS, LAYERS, TOKENS = 128, 4, 2, 1024
WAYS = ("forward", "training step")


def encoder() -> Encoder:
    torch.manual_seed(0)
    return Encoder(dim=DIM, num_heads=HEADS, intermediate=2 * DIM, num_layers=LAYERS, dropout=0.0)


class Model(nn.Module):
    """A method and the encoder that it speaks to."""

    def __init__(self, name: str, length: int) -> None:
        super().__init__()
        self.encoder = encoder()
        self.method = build(name, dim=DIM, num_heads=HEADS, max_length=length, mean_length=length)

    def forward(self, vectors: Tensor, mask: Tensor) -> Tensor:
        x, injection, _ = self.method(vectors, mask)
        return self.encoder(x, injection, mask)


def works(name: str, length: int) -> dict[str, Callable[[], None]]:
    """A forward pass in evaluation, and a forward, backward and optimizer step in training."""
    size = Size(dim=DIM, num_heads=HEADS, max_length=length)
    model = PEERS[name](encoder(), size) if name in PEERS else Model(name, length)
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.0, fused=True)  # as `vnait train`
    vectors = torch.randn(max(TOKENS // length, 1), length, DIM, requires_grad=True)
    mask = torch.ones(vectors.shape[:2], dtype=torch.bool)

    def forward() -> None:
        with torch.no_grad():
            model.eval()(vectors, mask)

    def step() -> None:
        model.train()(vectors, mask).square().mean().backward()
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        vectors.grad = None

    return dict(zip(WAYS, (forward, step), strict=True))


def times(names: list[str], length: int, rounds: int) -> dict[str, list[list[float]]]:
    """Ratios to none, sorted, one list per way."""
    # glibc returns freed memory to the system after each step of a small model alone, until a large block has
    # been freed, as the gradient of a table of vectors is in any training; a step then takes up to .1 less.
    torch.zeros(24 * 2**20 // 4)
    made = {name: works(name, length) for name in names}
    taken: dict[str, list[list[float]]] = {name: [] for name in names}
    for _ in range(rounds + 1):  # the first one warms up
        for name in names:
            gc.collect()
            taken[name].append([seconds(work) for work in made[name].values()])
    pairs = {name: list(zip(taken["none"], own, strict=True))[1:] for name, own in taken.items()}
    return {
        name: [sorted(own[way] / base[way] for base, own in pairs[name]) for way in range(len(WAYS))]
        for name in names
    }


def seconds(work: Callable[[], None]) -> float:
    started = time.process_time()
    work()
    return time.process_time() - started


def peaks(names: list[str], length: int) -> dict[str, list[float]]:
    """Ratio to none of the most that was held at once, one per way."""
    held = {name: [peak(work) for work in works(name, length).values()] for name in names}
    return {name: [own / base for own, base in zip(held[name], held["none"], strict=True)] for name in names}


def peak(work: Callable[[], None]) -> int:
    """Bytes held at once at most, beside what was held before: PyTorch's own account of what it allocates and
    frees.
    """
    work()  # what is allocated once, as an optimizer's state
    with torch.profiler.profile(
        activities=[torch.profiler.ProfilerActivity.CPU], profile_memory=True
    ) as profile:
        work()
    events = [event for event in profile.profiler.kineto_results.events() if event.name() == "[memory]"]
    return max(accumulate(event.nbytes() for event in sorted(events, key=lambda event: event.start_ns())))


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("names", nargs="*", metavar="NAME", default=[])
    parser.add_argument("--lengths", nargs="+", type=int, default=[20, 128, 1024, 4096])
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--out", type=Path)
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    torch.set_num_threads(1)
    os.environ["KINETO_LOG_LEVEL"] = "99"  # the profiler announces each start and stop
    names = ["none", *(name for name in options.names or [*METHODS, *PEERS] if name != "none")]
    machine = f"{platform.machine()}, {os.cpu_count()} cores, PyTorch {torch.__version__}"
    lines = [
        f"Ratios to none, median (least to greatest): {LAYERS} layers, width {DIM}, {HEADS} heads, one "
        f"thread; {machine}."
    ]
    record: dict[str, Any] = {"machine": machine, "cpu": processor(), "rows": []}
    for length in options.lengths:
        rounds = options.rounds * (5 if length <= 128 else 1)
        memory, ratios = peaks(names, length), times(names, length, rounds)
        lines += ["", f"T = {length:,}, B = {max(TOKENS // length, 1)}, {rounds} rounds", ""]
        lines += ["| method | forward | training step | memory, forward | memory, training step |"]
        lines += ["|---|---|---|---|---|"]
        for name in names:
            cells = [f"{median(own):.2f} ({own[0]:.2f} to {own[-1]:.2f})" for own in ratios[name]]
            cells += [f"{ratio:.2f}" for ratio in memory[name]]
            lines.append(f"| {name} | {' | '.join(cells)} |")
            found = dict(zip(WAYS, ratios[name], strict=True))
            held = dict(zip(WAYS, memory[name], strict=True))
            record["rows"].append({"method": name, "tokens": length, "times": found, "memory": held})
        print("\n".join(lines), flush=True)
        if options.out:
            with options.out.open("w" if length == options.lengths[0] else "a") as file:
                file.write("\n".join(lines) + "\n")
        if options.json:
            options.json.write_text(json.dumps(record, indent=1) + "\n")
        lines = []


def processor() -> str:
    """The processor's name, where Linux gives it."""
    path = Path("/proc/cpuinfo")
    lines = path.read_text().splitlines() if path.exists() else []
    return next(
        (line.partition(":")[2].strip() for line in lines if line.startswith("model name")), "unknown"
    )


if __name__ == "__main__":
    main()
