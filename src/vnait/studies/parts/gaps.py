"""Gaps between positions that are learned from the words of sentences: Vnait's S with the source `content`, for the phrases study."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

import numpy as np
import torch
from torch import Generator, Tensor
from torch.nn import functional as F

from vnait.coordinates import Span
from vnait.coordinates.sources import UNIT_Z
from vnait.encodings import Spatial
from vnait.method import Method
from vnait.studies.parts.training import Reader, descend
from vnait.studies.parts.treebank import Sentence
from vnait.study import Metrics

DIM, BATCH = 32, 32


def gaps(
    train: list[Sentence], test: list[Sentence], seed: int, steps: int, *, taught: bool
) -> tuple[list[np.ndarray], Metrics]:
    """Learned gaps over the uniform one; trained on the right neighbour's part of speech, or to be large at clause boundaries."""
    counts = Counter(word for one in train for word in one.words)
    words = {word: number for number, word in enumerate((one for one in counts if counts[one] > 1), 1)}
    tags = {tag: number for number, tag in enumerate(sorted({tag for one in train for tag in one.tags}))}
    torch.manual_seed(seed)
    span = Span(source="content", dim=DIM)
    method = Method(coordinates=span, encoding=Spatial(dim=DIM, features="fourier", start=1.0))
    model = Reader(method, vocabulary=len(words) + 1, outputs=len(tags), dim=DIM)

    def ids(sentences: list[Sentence]) -> Tensor:
        return torch.tensor([[words.get(word, 0) for word in one.words] for one in sentences])

    def loss(step: int) -> Tensor:
        own = batch()
        if taught:
            z = span.source(model.vectors(ids(own)), torch.ones(len(own), len(own[0].words), dtype=torch.bool))
            return F.binary_cross_entropy_with_logits(
                z[:, 1:] - UNIT_Z, torch.tensor(np.array([one.clause for one in own])).to(z)
            )
        right = torch.tensor([[tags[tag] for tag in one.tags[1:]] for one in own])
        return F.cross_entropy(model(ids(own))[:, :-1].flatten(0, 1), right.flatten())

    batch = batches(train, Generator().manual_seed(seed))
    descend(model.parameters(), loss, steps=steps, learning_rate=2e-3)
    found, hits, off = [], [], []
    with torch.no_grad():
        for one in test:
            mask = torch.ones(1, len(one.words), dtype=torch.bool)
            at = span(model.vectors(ids([one])), mask)[0, :, 0].double()
            linear = 100 * torch.arange(1, len(at) + 1) / len(at)
            off.append(float((at - linear).abs().max()))
            found.append((at.diff() * len(at) / 100).numpy())
            told = model(ids([one]))[0, :-1].argmax(-1).tolist()
            hits += [number == tags.get(tag) for number, tag in zip(told, one.tags[1:], strict=True)]
    together = np.concatenate(found)
    return found, {
        "accuracy": float(np.mean(hits)),
        "from_linear": float(np.mean(off)),
        "spread": float(together.std()),
    }


def batches(sentences: list[Sentence], random: Generator) -> Callable[[], list[Sentence]]:
    """Sentences of one length, drawn as often as it occurs."""
    by_length: dict[int, list[Sentence]] = {}
    for one in sentences:
        by_length.setdefault(len(one.words), []).append(one)

    def draw() -> list[Sentence]:
        alike = by_length[len(sentences[int(torch.randint(len(sentences), (), generator=random))].words)]
        return [alike[place] for place in torch.randint(len(alike), (BATCH,), generator=random).tolist()]

    return draw
