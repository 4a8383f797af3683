"""What a new token costs: every causal method over none, after 128, 1,024 and 4,096 tokens in the cache,
beside transformers' Llama of the same size.

    python benchmarks/decoding.py [NAME ...] [--lengths 128 1024 4096] [--layers 2] [--rounds 9]

A decoder of width 128, 4 heads, one text, one thread, float32. In every round each model reads one
token after its own cache, which is then cropped again; printed are the medians over rounds of the ratio to
`none` of the same round, and none's milliseconds, of the process's own time, which other processes do not
lengthen. Then the tokens per second that `generate()` writes after such a text, the best of three runs.
"""

import argparse
import time
from collections.abc import Callable
from statistics import median

import torch
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedModel
from transformers.generation.streamers import BaseStreamer

from vnait.model import VnaitConfig, VnaitForCausalLM
from vnait.positions.building import build
from vnait.positions.methods import METHODS

DIM, HEADS, WORDS = 128, 4, 1000
MORE = 64  # tokens that `generate()` writes
LIMITS = ("min_new_tokens", "max_new_tokens")
LLAMA = "llama (transformers)"


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("names", nargs="*", metavar="NAME", default=[])
    parser.add_argument("--lengths", nargs="+", type=int, default=[128, 1024, 4096])
    parser.add_argument("--layers", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=9)
    options = parser.parse_args()
    torch.set_num_threads(1)
    causal = [name for name in METHODS if build(name, dim=DIM, num_heads=HEADS).causal]
    names = ["none", LLAMA, *(name for name in options.names or causal if name != "none")]
    for length in options.lengths:
        found = times(names, length, options.layers, options.rounds)
        base = found["none"]
        print(f"\nT = {length:,}, {options.layers} layers; none: {1000 * median(base):.2f} ms per token\n")
        print("| method | new token | tokens per second |\n|---|---|---|")
        for name, own in found.items():
            ratio = median(one / other for one, other in zip(own, base, strict=True))
            print(f"| {name} | {ratio:.2f} | {rate(name, length, options.layers):.0f} |", flush=True)


@torch.no_grad()
def times(names: list[str], length: int, layers: int, rounds: int) -> dict[str, list[float]]:
    """Seconds of one token after `length` others, a round each."""
    steps = {name: step_of(name, length, layers) for name in names}
    taken: dict[str, list[float]] = {name: [] for name in names}
    for _ in range(rounds + 1):  # the first one warms up
        for name, step in steps.items():
            started = time.process_time()
            step()
            taken[name].append(time.process_time() - started)
    return {name: own[1:] for name, own in taken.items()}


def step_of(name: str, length: int, layers: int) -> Callable[[], None]:
    """Read one more token after a cache of `length`."""
    model, ids = model_of(name, length, layers), ids_of(length + 1)
    cache = model(ids[:, :-1], use_cache=True, logits_to_keep=1).past_key_values

    def step() -> None:
        model(ids[:, -1:], past_key_values=cache, use_cache=True)
        cache.crop(-1)

    return step


@torch.no_grad()
def rate(name: str, length: int, layers: int) -> float:
    """Tokens a second of `generate()`, from the first new one to the last."""
    model, ids = model_of(name, length + MORE, layers), ids_of(length)
    limits = dict.fromkeys(LIMITS, 1 + MORE)
    taken = []
    for _ in range(3):
        clock = Clock()
        model.generate(ids, attention_mask=torch.ones_like(ids), do_sample=False, streamer=clock, **limits)
        taken.append(clock.times[-1] - clock.times[-1 - MORE])
    return MORE / min(taken)


class Clock(BaseStreamer):
    """When each token was written, in seconds of the process's own time."""

    def __init__(self) -> None:
        self.times: list[float] = []

    def put(self, value: torch.Tensor) -> None:
        self.times.append(time.process_time())

    def end(self) -> None:
        pass


def ids_of(length: int) -> torch.Tensor:
    return torch.randint(3, WORDS, (1, length), generator=torch.Generator().manual_seed(0))


def model_of(name: str, length: int, layers: int) -> PreTrainedModel:
    torch.manual_seed(0)
    sizes = {
        "vocab_size": WORDS,
        "hidden_size": DIM,
        "intermediate_size": 2 * DIM,
        "num_hidden_layers": layers,
        "num_attention_heads": HEADS,
    }
    if name == LLAMA:
        return LlamaForCausalLM(LlamaConfig(**sizes, max_position_embeddings=length + 1)).eval()
    return VnaitForCausalLM(VnaitConfig(method=name, max_length=length + 1, **sizes)).eval()


if __name__ == "__main__":
    main()
