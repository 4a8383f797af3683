"""Generated chains of three families and their contacts, of which there are more than in proteins.

What the residues say of the contacts is weak, and a map that was known before is noisy. Last, how well scores find the contacts.
"""

from __future__ import annotations

import torch
from sklearn.metrics import average_precision_score, roc_auc_score
from torch import Generator, Tensor
from torch.nn import functional as F

from vnait.study import Metrics

LENGTH, CHANNELS, RATE, NOISE = 80, 48, 0.12, 1.0
NEAR, FAR = 6, 24  # separations from which pairs are scored at all, and from which they count as far
TURN = 28  # residues
KEPT, FALSE = 0.5, 0.03  # of a noisy map: contacts that it has, and other pairs
FAMILIES = {
    "globule": "compact: a walk that forgets where it was within some ten steps",
    "walk": "a random walk",
    "solenoid": f"a coil of {TURN} residues a turn",
}


def traces(family: str, count: int, random: Generator) -> Tensor:
    """Where the residues are in space: (count, 80, 3)."""
    steps = torch.randn(count, LENGTH, 3, generator=random)
    if family == "walk":
        return steps.cumsum(1)
    if family == "globule":
        away = torch.arange(LENGTH)[:, None] - torch.arange(LENGTH)
        return (0.75**away * (away >= 0)) @ steps
    angle = 2 * torch.pi * torch.arange(LENGTH) / TURN
    return torch.stack([4 * angle.cos(), 4 * angle.sin(), angle / 2], -1) + 2 * steps


def touching(family: str, count: int, random: Generator) -> Tensor:
    """Contacts (count, 80, 80), True and False: the nearest 12 % of the pairs that are far on the chain, and what is as near."""
    trace = traces(family, count, random)
    distance = torch.cdist(trace, trace)
    return distance <= distance[:, pairs(FAR)].quantile(RATE, dim=1)[:, None, None]


def pairs(least: int) -> Tensor:
    """(80, 80), True at i, j with j - i >= least."""
    return torch.ones(LENGTH, LENGTH).triu(least).bool()


def frequency(contacts: Tensor) -> list[float]:
    """P(s), s = 1 ... 79."""
    return [float(contacts.diagonal(step, 1, 2).double().mean()) for step in range(1, LENGTH)]


def contents(contacts: Tensor, random: Generator) -> Tensor:
    """What the residues say (count, 80, 48): a vector that both ends of a contact share, a pair of them its own, and noise."""
    count = len(contacts)
    said = NOISE * torch.randn(count, LENGTH, CHANNELS, generator=random)
    for channel in range(CHANNELS):
        shared = torch.randn(count, LENGTH, LENGTH, generator=random).triu(1) * contacts
        said[..., channel] += (shared + shared.mT).sum(-1)
    return F.normalize(said, dim=-1) * CHANNELS**0.5


def noisy(contacts: Tensor, random: Generator) -> Tensor:
    """Maps that were known before: some of the contacts and some of the other pairs, symmetric."""
    draw = torch.rand(contacts.shape, generator=random).triu(1)
    draw = draw + draw.mT
    return torch.where(contacts, draw < KEPT, draw < FALSE).float()


def measured(scores: Tensor, contacts: Tensor) -> Metrics:
    """Of far pairs: average precision, area under the curve; and the attention of a row that goes to its far contacts."""
    far, scored = pairs(FAR), pairs(NEAR)
    attention = scores.masked_fill(~(scored | scored.T), -torch.inf).softmax(-1)
    truth, found = contacts[:, far].flatten().numpy(), scores[:, far].flatten().numpy()
    return {
        "precision": float(average_precision_score(truth, found)),
        "area": float(roc_auc_score(truth, found)),
        "mass": float((attention * (contacts & (far | far.T))).sum(-1).mean()),
    }
