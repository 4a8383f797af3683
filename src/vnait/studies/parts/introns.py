"""Generated introns, for the splicing study: what is where in them is known, as it is in no real ones at hand; and real junctions."""

from __future__ import annotations

import csv
from typing import NamedTuple

import torch
from torch import Generator, Tensor

from vnait.studies.parts.dna import letters, starts
from vnait.study import data_folder

LENGTH = 128
NEAR = (10, 20, 30)  # letters from the donor where a decoy may start
FAR = (42, 62)  # and the first and last place of a branch point


class Introns(NamedTuple):
    """Letters (N, LENGTH), where the donor and the branch point start (N,), the decoys (N, LENGTH), whether it is functional (N,)."""

    x: Tensor
    donor: Tensor
    branch: Tensor
    decoys: Tensor
    label: Tensor


def introns(count: int, random: Generator) -> Introns:
    """Half are functional, a quarter has a broken donor, a quarter no branch point."""

    def draw(low: int, high: int, *size: int) -> Tensor:
        return torch.randint(low, high + 1, size or (count,), generator=random)

    x = draw(0, 3, count, LENGTH)
    kind, donor = draw(0, 3), draw(2, 26)  # 0, 1: functional; 2: the donor is broken; 3: the branch point is missing
    branch = donor + draw(*FAR)
    tract = branch + 14 + draw(0, 7)
    place = torch.arange(LENGTH)
    inside = (place >= tract[:, None]) & (place < tract[:, None] + 14)
    x = torch.where(inside, 1 + 2 * draw(0, 1, count, LENGTH), x)
    put(x, tract + 14, "AG")
    put(x, donor, "GTAAGT")
    x[torch.arange(count), donor + 2] = 2 * draw(0, 1)  # R: A or G
    put(x, donor, "CA", kind == 2)
    put(x, branch, "CTAAC", kind != 3)
    wanted = draw(1, len(NEAR))
    order = torch.rand(count, len(NEAR), generator=random).argsort(1).argsort(1)
    decoys, meant = torch.zeros_like(x), torch.zeros_like(x)
    meant[kind != 3, branch[kind != 3]] = 1
    for number, distance in enumerate(NEAR):
        start = donor + distance + draw(0, 1)
        chosen = order[:, number] < wanted
        put(x, start, "CTAAC", chosen)
        decoys[chosen, start[chosen]] = 1
    chance = starts(x, letters("CTAAC")).long() - meant - decoys
    x = x + 2 * chance.roll(3, 1)  # no branch point by chance: its second A becomes a G
    return Introns(x, donor, branch, decoys, (kind < 2).long())


def junctions(part: str) -> tuple[Tensor, Tensor, Tensor]:
    """Real windows (N, 60), their middle (N,), and whether that is a donor (0), an acceptor (1) or neither (2): "train" or "test"."""
    with (data_folder("splice") / f"{part}.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    x = torch.stack([letters(row["text"]) for row in rows])
    return x, torch.full((len(x),), 30), torch.tensor([("EI", "IE", "N").index(row["label"]) for row in rows])


def put(x: Tensor, start: Tensor, motif: str, rows: Tensor | None = None) -> None:
    """The motif into the rows (N,), all of them where none are named, from `start` (N,) on; in place."""
    own = torch.arange(len(x)) if rows is None else rows.nonzero()[:, 0]
    x[own[:, None], start[own, None] + torch.arange(len(motif))] = letters(motif)


def replaced(x: Tensor, rows: Tensor, starts: Tensor, motif: str) -> Tensor:
    """A copy with the motif in the rows (M,), from the places (M,) on."""
    x = x.clone()
    x[rows[:, None], starts[:, None] + torch.arange(len(motif))] = letters(motif)
    return x
