"""What a positional method costs over none on a GPU: forward and a training step, call by call, and as a CUDA
graph, which pays for no launch.

    python benchmarks/gpu.py [NAME ...] [--lengths 20 128 1024 4096] [--dtype bfloat16] [--rounds 7]

An encoder of 12 layers, width 768, 12 heads, on 4,096 tokens in a batch, masked. Device time between two
events, and the median over rounds of the ratio to `none` of the same round.
"""

import argparse
from collections.abc import Callable
from statistics import median

import torch
from torch import Tensor, nn

from vnait.model.backbone import Encoder
from vnait.positions.building import build

DIM, HEADS, LAYERS, TOKENS = 768, 12, 12, 4096
WAYS = ("forward", "training step", "forward, graph", "training step, graph")
NAMES = ("sinusoidal", "rope", "alibi", "t5", "kerple", "shaw", "fire", "cable", "vnait-uniform", "vnait")


class Model(nn.Module):
    """A method and the encoder behind it."""

    def __init__(self, name: str, length: int) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.encoder = Encoder(dim=DIM, num_heads=HEADS, intermediate=4 * DIM, num_layers=LAYERS, dropout=0.0)
        self.method = build(name, dim=DIM, num_heads=HEADS, max_length=length, mean_length=length)

    def forward(self, vectors: Tensor, mask: Tensor) -> Tensor:
        x, injection, _ = self.method(vectors, mask)
        return self.encoder(x, injection, mask)


def works(name: str, length: int, dtype: torch.dtype) -> list[Callable[[], object]]:
    """The four ways, ready to be called."""
    with torch.device("cuda"):
        model = Model(name, length)
    vectors = torch.randn(TOKENS // length, length, DIM, device="cuda", requires_grad=True)
    mask = torch.ones(vectors.shape[:2], dtype=torch.bool, device="cuda")

    def run() -> Tensor:
        with torch.autocast("cuda", dtype, enabled=dtype != torch.float32, cache_enabled=False):
            return model(vectors, mask).square().mean()

    def forward() -> None:
        with torch.no_grad():
            run()

    def step() -> None:
        run().backward()

    return [forward, step, captured(forward), captured(step)]


def captured(work: Callable[[], None]) -> Callable[[], object]:
    """The same work as one CUDA graph."""
    aside = torch.cuda.Stream()
    aside.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(aside):
        for _ in range(2):
            work()
    torch.cuda.current_stream().wait_stream(aside)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        work()
    return graph.replay


def milliseconds(work: Callable[[], object]) -> float:
    begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    begin.record()
    for _ in range(3):
        work()
    end.record()
    end.synchronize()
    return begin.elapsed_time(end) / 3


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("names", nargs="*", metavar="NAME", default=NAMES, help=f"[{' '.join(NAMES)}]")
    parser.add_argument("--lengths", nargs="+", type=int, default=[20, 128, 1024, 4096])
    parser.add_argument("--dtype", default="bfloat16", choices=["bfloat16", "float32"])
    parser.add_argument("--rounds", type=int, default=7)
    options = parser.parse_args()
    if not torch.cuda.is_available():
        parser.error("no CUDA device was found.")
    names = ["none", *(name for name in options.names if name != "none")]
    print(f"{torch.cuda.get_device_name()}, PyTorch {torch.__version__}, {options.dtype}")
    for length in options.lengths:
        taken: dict[str, list[list[float]]] = {}
        for name in names:  # one at a time: a graph keeps its memory
            try:
                base, own = (works(one, length, getattr(torch, options.dtype)) for one in ("none", name))
                for work in (*base, *own):
                    work()
                taken[name] = [[milliseconds(work) for work in (*base, *own)] for _ in range(options.rounds)]
            except RuntimeError as error:
                print(f"{name} at {length}: {str(error).splitlines()[0]}")
            torch.cuda.empty_cache()
        print(f"\nT = {length:,}, B = {TOKENS // length}\n\n| method | {' | '.join(WAYS)} |")
        print("|---" * (1 + len(WAYS)) + "|")
        for name, rounds in taken.items():
            times = [[row[way] for row in rounds] for way in range(len(WAYS))]
            ratios = [[row[len(WAYS) + way] / row[way] for row in rounds] for way in range(len(WAYS))]
            cells = [f"{median(one):.2f} ms" for one in times] if name == "none" else map(ratio, ratios)
            print(f"| {name} | {' | '.join(cells)} |", flush=True)


def ratio(found: list[float]) -> str:
    return f"{median(found):.2f} ({min(found):.2f} to {max(found):.2f})"


if __name__ == "__main__":
    main()
