"""A language model of letters, trained on windows of 64: its text, its methods, its training."""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path

import torch
from gensim.test.utils import datapath
from torch import Generator, Tensor
from torch.nn import functional as F

from vnait.positions.coordinates import Index
from vnait.positions.encodings import T5Bias
from vnait.positions.method import Method
from vnait_lab.studies.parts.training import Reader, descend

TRAINED, READ, BATCH = 64, 512, 16
METHODS = {
    "sinusoidal": "sinusoids added",
    "learned": f"a table of {READ} rows, of which {TRAINED} are trained",
    "rope": "queries and keys turned",
    "t5-128": "32 buckets of distances, the last from 128 on",
    "t5-64": "32 buckets of distances, the last from 64 on",
    "alibi": "a penalty on distance",
    "none": "no positions but the causal mask",
}


def news() -> str:
    """The Lee news corpus, an article a line, which gensim ships for its own tests."""
    return Path(datapath("lee_background.cor")).read_text(encoding="utf-8")


@lru_cache(maxsize=1)
def text() -> tuple[Tensor, Tensor, int]:
    """Training letters, test letters (the last tenth) and the size of the alphabet."""
    letters = news()
    number = {letter: i for i, letter in enumerate(sorted(set(letters)))}
    ids = torch.tensor([number[letter] for letter in letters])
    return ids[: -len(ids) // 10], ids[-len(ids) // 10 :], len(number)


def trained(variant: str, seed: int, steps: int, *, num_layers: int = 2) -> Reader:
    """Train the language model with a method of `METHODS`."""
    train, _, count = text()
    torch.manual_seed(seed)
    method: str | Method = variant
    if variant.startswith("t5-"):
        buckets = T5Bias(num_heads=4, max_distance=int(variant[3:]), bidirectional=False)
        method = Method(coordinates=Index(), encoding=buckets)
    model = Reader(
        method, vocabulary=count, outputs=count, num_layers=num_layers, max_length=READ, causal=True
    )
    random = Generator().manual_seed(seed)

    def loss(step: int) -> Tensor:
        starts = torch.randint(len(train) - TRAINED, (BATCH, 1), generator=random)
        return losses(model, train[starts + torch.arange(TRAINED + 1)]).mean()

    descend(model.parameters(), loss, steps=steps, learning_rate=3e-3)
    return model.eval()


def losses(model: Reader, ids: Tensor) -> Tensor:
    """Cross-entropy of the next letter: letters (N, T + 1) -> losses (N, T)."""
    logits = model(ids[:, :-1])
    loss = F.cross_entropy(logits.flatten(0, 1), ids[:, 1:].flatten(), reduction="none")
    return loss.unflatten(0, (len(ids), -1))
