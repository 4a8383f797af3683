"""Where the time of `vnait` goes in short texts: a training step of each of its parts, beside the encoder's.

    python benchmarks/parts.py [--batch 32] [--length 20] [--dim 128] [--layers 2] [--rounds 40]

Forward and backward, one thread, float32; the parts take turns, and printed are the medians over rounds of
the ratio to the encoder of the same round, of the process's own time. Beside them the ratio of the arithmetic
of matrix products and convolutions: where the first is far above the second, the time is that of many small
operations. The parts don't add up to the whole, which has work of its own.
"""

import argparse
import time
from collections.abc import Callable
from statistics import median

import torch
from torch import Tensor
from torch.utils.flop_counter import FlopCounterMode

from vnait.model.backbone import Encoder
from vnait.positions.building import build
from vnait.positions.injection import Injection


def main() -> None:
    parser = argparse.ArgumentParser()
    for name, default in (("batch", 32), ("length", 20), ("dim", 128), ("layers", 2), ("rounds", 40)):
        parser.add_argument(f"--{name}", type=int, default=default)
    options = parser.parse_args()
    torch.set_num_threads(1)
    torch.manual_seed(0)
    parts = parts_of(options.batch, options.length, options.dim, options.layers)
    taken: dict[str, list[float]] = {name: [] for name in parts}
    for _ in range(options.rounds + 1):  # the first one warms up
        for name, part in parts.items():
            taken[name].append(seconds(part))
    first = next(iter(parts))
    base, work = taken[first][1:], operations(parts[first])
    print(f"B = {options.batch}, T = {options.length}, d = {options.dim}, {options.layers} layers\n")
    print("| part | time | arithmetic |\n|---|---|---|")
    for name, part in parts.items():
        ratio = median(own / other for own, other in zip(taken[name][1:], base, strict=True))
        print(f"| {name} | {ratio:.3f} | {operations(part) / work:.3f} |")


def parts_of(batch: int, length: int, dim: int, layers: int) -> dict[str, Callable[[], Tensor]]:
    """The encoder, the whole method, and its parts; each gives a sum."""
    method = build("vnait", dim=dim, num_heads=4).train()
    encoder = Encoder(dim=dim, num_heads=4, intermediate=4 * dim, num_layers=layers, dropout=0.0)
    words = torch.randn(batch, length, dim, requires_grad=True)
    mask = torch.ones(batch, length, dtype=torch.bool)
    at = method.coordinates(words, mask).detach()
    added = method.encoding(at).added.detach().requires_grad_()
    window, nearest = method.inputs.views
    return {
        "encoder": lambda: encoder(words, Injection(), mask).sum(),
        "the whole of `vnait`": lambda: method(words, mask).x.sum(),
        "coordinates": lambda: method.coordinates(words, mask).sum(),
        "spatial vectors": lambda: method.encoding(at).added.sum(),
        "relation": lambda: method.inputs.inputs(words, added).sum(),
        "window": lambda: window(words).sum(),
        "nearest word": lambda: nearest(words).sum(),
        "relation and views, condensed": lambda: method.inputs(words, added, at).sum(),
    }


def seconds(part: Callable[[], Tensor]) -> float:
    started = time.process_time()
    part().backward()
    return time.process_time() - started


def operations(part: Callable[[], Tensor]) -> int:
    """Of matrix products and convolutions, forward and backward."""
    with FlopCounterMode(display=False) as counter:
        part().backward()
    counts = counter.get_flop_counts()["Global"]
    # PyTorch counts the gradient of a depthwise convolution as that of a full one; it is twice the forward.
    counts.pop(torch.ops.aten.convolution_backward, None)
    return int(sum(counts.values()) + 2 * counts.get(torch.ops.aten.convolution, 0))


if __name__ == "__main__":
    main()
