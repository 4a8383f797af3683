"""A small vision Transformer of scikit-learn's digits, for the study `vision`: its positions, its images, its training."""

from __future__ import annotations

from functools import lru_cache

import torch
from sklearn.datasets import load_digits
from torch import Generator, Tensor, nn
from torch.nn import functional as F

from vnait.backbone import Encoder
from vnait.coordinates import Grid
from vnait.encodings import Axial, Axis, Concatenated, GridTable, Relative, Silent, Sinusoid, Sum
from vnait.method import Method
from vnait.studies.parts.training import descend

PATCH, SIDE, DIM, HEADS = 2, 4, 48, 4  # 8 x 8 pixels are 4 x 4 patches
TRAIN, BATCH = 1_300, 32


def encoding(arm: str) -> nn.Module:
    if arm == "learned":
        return GridTable(dim=DIM, shape=(SIDE, SIDE), start=0.5)
    if arm == "sinusoid":
        return Concatenated(*(Axis(Sinusoid(dim=DIM // 2, base=100), axis) for axis in (0, 1)))
    if arm == "relative":
        return Sum(*(Axis(Relative(num_heads=HEADS, max_distance=SIDE - 1, start=1.0), axis) for axis in (0, 1)))
    return Axial(width=DIM // HEADS, axes=2) if arm == "axial" else Silent()


class Placed(nn.Module):
    """Known places (T, 2), the same for every image."""

    causal, per_sentence = False, False

    def __init__(self, places: Tensor) -> None:
        super().__init__()
        self.places = places

    def forward(self, vectors: Tensor | None, mask: Tensor) -> Tensor:
        return self.places.expand(len(mask), -1, -1)


class Viewer(nn.Module):
    """Images (B, h, w) -> logits (B, 10): patches, positions, two blocks, the mean over the patches that are kept."""

    def __init__(self, arm: str) -> None:
        super().__init__()
        self.patches = nn.Conv2d(1, DIM, PATCH, stride=PATCH)
        self.method = Method(coordinates=Grid(shape=(-1, SIDE)), encoding=encoding(arm))
        self.unbounded = arm != "learned"  # there are places past those that were trained
        self.encoder = Encoder(dim=DIM, num_heads=HEADS, intermediate=2 * DIM, num_layers=2, dropout=0.0)
        self.read = nn.Linear(DIM, 10)

    def forward(self, images: Tensor, places: Tensor | None = None, keep: Tensor | None = None) -> Tensor:
        """`places` (T, 2) of the patches, `keep` (B, T): True = real; None for 4 x 4 of them, and for all."""
        vectors = self.patches(images[:, None]).flatten(2).mT
        keep = torch.ones(vectors.shape[:2], dtype=torch.bool) if keep is None else keep
        method = self.method
        if places is not None:
            method = Method(coordinates=Placed(places), encoding=method.encoding)
        told = method(vectors, keep)
        states = self.encoder(told.x, told.injection, keep) * keep[..., None]
        return self.read(states.sum(1) / keep.sum(1, keepdim=True))


def grid(images: Tensor) -> Tensor:
    """The cells (T, 2) of the patches of images (B, h, w)."""
    return torch.cartesian_prod(*(torch.arange(size // PATCH, dtype=images.dtype) for size in images.shape[1:]))


@lru_cache(maxsize=1)
def digits() -> tuple[Tensor, Tensor]:
    """1,797 images of 8 x 8 pixels in [0, 1], and what they show."""
    found = load_digits()
    return torch.tensor(found.images, dtype=torch.float32) / 16, torch.tensor(found.target)


def train(arm: str, seed: int, steps: int) -> tuple[Viewer, Tensor, Tensor]:
    """The model, and the images and labels that it has not seen."""
    images, labels = digits()
    random = Generator().manual_seed(seed)
    order = torch.randperm(len(images), generator=random)
    torch.manual_seed(seed)
    model = Viewer(arm)

    def loss(step: int) -> Tensor:
        batch = order[torch.randint(TRAIN, (BATCH,), generator=random)]
        return F.cross_entropy(model(images[batch]), labels[batch])

    descend(model.parameters(), loss, steps=steps, learning_rate=3e-3, weight_decay=0.01)
    return model.requires_grad_(False), images[order[TRAIN:]], labels[order[TRAIN:]]
