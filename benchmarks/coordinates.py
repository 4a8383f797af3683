"""What a coordinate costs per token, from short texts to very long ones, for every source of gaps.

    python benchmarks/coordinates.py [NAME ...] [--dim 128] [--lengths 10000 100000 1000000] [--rounds 5]

One text, one thread, float32, without gradients. Every round calls each source once at each length; printed
are nanoseconds per token, the median over rounds of the process's own time, and the ratio to the first length
of the same round.
"""

import argparse
import time
from collections.abc import Callable
from statistics import median

import torch
from torch import nn

from vnait.positions.coordinates import ContextGate, Elastic, Ends, Gate, Index, Running, Saturating, Span

DIM = 128
SOURCES: dict[str, Callable[[int, int], nn.Module]] = {
    "index": lambda dim, longest: Index(),
    "span, uniform": lambda dim, longest: Span(source="uniform"),
    "span, free": lambda dim, longest: Span(source="free", max_length=longest),
    "span, warp": lambda dim, longest: Span(source="warp"),
    "span, content": lambda dim, longest: Span(source="content", dim=dim),
    "ends of a span, warp": lambda dim, longest: Ends(Span(source="warp")),
    "running, content": lambda dim, longest: Running(source="content", dim=dim),
    "saturating": lambda dim, longest: Saturating(),
    "elastic, gate": lambda dim, longest: Elastic(Gate(dim=dim)),
    "elastic, gate with context": lambda dim, longest: Elastic(ContextGate(dim=dim)),
}


@torch.no_grad()
def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("names", nargs="*", metavar="NAME", default=[])
    parser.add_argument("--dim", type=int, default=DIM)
    parser.add_argument("--lengths", nargs="+", type=int, default=[10_000, 100_000, 1_000_000])
    parser.add_argument("--rounds", type=int, default=5)
    options = parser.parse_args()
    torch.set_num_threads(1)
    torch.manual_seed(0)
    longest = max(options.lengths)
    words = torch.randn(1, longest, options.dim)
    parts = {name: SOURCES[name](options.dim, longest).eval() for name in options.names or SOURCES}
    taken: dict[tuple[str, int], list[float]] = {(name, n): [] for name in parts for n in options.lengths}
    for _ in range(options.rounds + 1):  # the first one warms up
        for name, part in parts.items():
            for length in options.lengths:
                taken[name, length].append(nanoseconds(part, words[:, :length]))
    print(f"ns per token, d = {options.dim}, and the ratio to {options.lengths[0]:,} tokens\n")
    print(f"| source | {' | '.join(f'{length:,}' for length in options.lengths)} |")
    print("|---" * (len(options.lengths) + 1) + "|")
    for name in parts:
        base = taken[name, options.lengths[0]][1:]
        cells = []
        for length in options.lengths:
            own = taken[name, length][1:]
            ratio = median(one / other for one, other in zip(own, base, strict=True))
            cells.append(f"{median(own):.0f} ({ratio:.2f})")
        print(f"| {name} | {' | '.join(cells)} |")


def nanoseconds(part: nn.Module, words: torch.Tensor) -> float:
    """Per token; a short text is read several times, so that one call is no measure of the clock."""
    length = words.shape[1]
    calls = max(100_000 // length, 1)
    mask = torch.ones(1, length, dtype=torch.bool)
    started = time.process_time()
    for _ in range(calls):
        part(words, mask)
    return 1e9 * (time.process_time() - started) / (calls * length)


if __name__ == "__main__":
    main()
