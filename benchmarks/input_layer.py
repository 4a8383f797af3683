"""What the input layer costs: the papers' literal fusion, the folded one, the default method and a table,
beside one BERT-base layer.

    python benchmarks/input_layer.py [--dim 768] [--rounds 15]

B = 8, T = 128, one thread. In every round each candidate runs once, forward and then forward and backward;
printed are the medians over rounds of the ratio to the first, taken round by round, so that a machine that
slows down slows all of them; of the process's own time.

Then the most that PyTorch held at once in evaluation, at B = 512, over the size of the output x; x and s
alone are two of these.
"""

import argparse
import os
import time
from collections.abc import Callable
from functools import partial
from statistics import median

import torch
from torch import Tensor, nn

from methods import peak
from vnait.positions.building import build
from vnait.positions.coordinates import Span
from vnait.positions.encodings import Spatial
from vnait.positions.inputs import Fusion, LiteralFusion
from vnait.positions.method import Method

B, T = 8, 128


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--dim", type=int, default=768)
    parser.add_argument("--rounds", type=int, default=15)
    options = parser.parse_args()
    torch.set_num_threads(1)
    os.environ["KINETO_LOG_LEVEL"] = "99"  # the profiler announces each start and stop
    torch.manual_seed(0)
    layers = candidates(options.dim)
    x = torch.randn(B, T, options.dim, requires_grad=True)
    times: dict[str, list[tuple[float, float]]] = {name: [] for name in layers}
    for _ in range(options.rounds + 1):  # the first one warms up
        for name, layer in layers.items():
            times[name].append((seconds(partial(forward, layer, x)), seconds(partial(backward, layer, x))))
    first = next(iter(layers))
    print(f"B = {B}, T = {T}, d = {options.dim}, {options.rounds} rounds; against {first}")
    print(f"{'':38} forward   forward + backward")
    for name in layers:
        pairs = list(zip(times[first], times[name], strict=True))[1:]
        ratios = [median(own[way] / base[way] for base, own in pairs) for way in (0, 1)]
        print(f"{name:38} {ratios[0]:7.4f}   {ratios[1]:7.4f}")
    for name in ("vnait-uniform", "vnait"):
        print(f"peak memory of {name} over its output: {memory(name, options.dim):.2f}")
    print(f"largest difference of folded and literal: {difference(options.dim):.1e}")


def candidates(dim: int) -> dict[str, Callable[[Tensor], Tensor]]:
    layer = nn.TransformerEncoderLayer(
        dim, dim // 64, 4 * dim, activation="gelu", batch_first=True, norm_first=True
    )
    mask = torch.ones(B, T, dtype=torch.bool)
    literal = papers(dim, LiteralFusion(dim=dim, hidden=2 * dim))
    folded = papers(dim, Fusion(dim=dim, hidden=2 * dim))
    return {
        "one BERT-base layer": layer.train(),
        "papers' sizes, literal": input_of(literal, mask),
        "papers' sizes, folded": input_of(folded, mask),
        "vnait-uniform (evaluation)": input_of(build("vnait-uniform", dim=dim).eval(), mask),
        "vnait-uniform (training, with jitter)": input_of(build("vnait-uniform", dim=dim), mask),
        "vnait (evaluation)": input_of(build("vnait", dim=dim).eval(), mask),
        "vnait (training, with jitter)": input_of(build("vnait", dim=dim), mask),
        "learned table": input_of(build("learned", dim=dim), mask),
    }


def papers(dim: int, fusion: nn.Module) -> Method:
    spatial = Spatial(dim=dim, features="scalar", hidden=(2 * dim,))
    return Method(coordinates=Span(source="free", max_length=T, min_gap=0), encoding=spatial, inputs=fusion)


def input_of(method: Method, mask: Tensor) -> Callable[[Tensor], Tensor]:
    return lambda x: method(x, mask).x


def forward(layer: Callable[[Tensor], Tensor], x: Tensor) -> None:
    with torch.no_grad():
        layer(x)


def backward(layer: Callable[[Tensor], Tensor], x: Tensor) -> None:
    layer(x).sum().backward()


def seconds(work: Callable[[], None]) -> float:
    started = time.process_time()
    work()
    return time.process_time() - started


@torch.no_grad()
def memory(name: str, dim: int) -> float:
    method = build(name, dim=dim).eval()
    x = torch.randn(512, T, dim)
    mask = torch.ones(512, T, dtype=torch.bool)
    return peak(lambda: method(x, mask)) / (x.numel() * x.element_size())


@torch.no_grad()
def folded(literal: LiteralFusion) -> Fusion:
    """The function of a `LiteralFusion`, in the folded form."""
    of_e, of_s, of_difference, of_rho = literal.inner.weight.chunk(4, dim=1)
    fusion = Fusion(dim=of_e.shape[1], hidden=of_e.shape[0]).to(of_e)
    fusion.semantic.weight.copy_(of_e + of_difference)
    fusion.semantic.bias.copy_(literal.inner.bias)
    fusion.spatial.weight.copy_(of_s - of_difference)
    fusion.similarity.weight.copy_(of_rho.sum(1, keepdim=True))
    fusion.out.load_state_dict(literal.out.state_dict())
    return fusion


@torch.no_grad()
def difference(dim: int) -> float:
    literal = LiteralFusion(dim=dim, hidden=2 * dim)
    e, s = torch.randn(2, B, T, dim).unbind()
    return float((literal(e, s) - folded(literal)(e, s)).abs().max())


if __name__ == "__main__":
    main()
