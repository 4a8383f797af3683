"""What a method tells of a text, and the numbers that panels draw of it."""

from __future__ import annotations

import numpy as np
import torch
from jaxtyping import Float
from numpy.typing import NDArray
from torch import Tensor
from torch.nn import functional as F

from vnait.drawing.shown import SEED
from vnait.errors import InputError
from vnait.injection import Injection
from vnait.method import Method, Told
from vnait.randomness import apart

DRAWS = 3  # of coordinates that training draws at random


@torch.no_grad()
def tell(method: Method, vectors: Float[Tensor, "T D"]) -> Told:
    """What the method tells of one text in evaluation, with its bias computed for every pair."""
    was = method.training
    method.eval()
    try:
        told = method(vectors[None], torch.ones(1, len(vectors), dtype=torch.bool))
    except ValueError as error:
        raise InputError(str(error)) from error
    finally:
        method.train(was)
    return told._replace(injection=told.injection.dense())


@torch.no_grad()
def drawn_in_training(method: Method, vectors: Float[Tensor, "T D"]) -> list[Float[Tensor, "T C"]]:
    """Coordinates that training draws at random, `DRAWS` times; none where training changes nothing."""
    mask = torch.ones(1, len(vectors), dtype=torch.bool)
    at = tell(method, vectors).at
    was = method.training
    method.train()
    try:
        with apart():
            torch.manual_seed(SEED)
            some = [method.coordinates(vectors[None], mask) for _ in range(DRAWS)]
    finally:
        method.train(was)
    return [] if all(torch.equal(one, at) for one in some) else [one[0] for one in some]


def similarity(injection: Injection) -> Float[Tensor, "T T"]:
    """The cosine of every two added vectors of the first text: 0 where one is zero."""
    assert injection.added is not None
    codes = F.normalize(injection.added[0].double(), dim=-1)
    return codes @ codes.T


def kernel(injection: Injection) -> Float[Tensor, "T T"]:
    """mean_k exp(stretch_ik - stretch_jk) cos(turn_ik - turn_jk): what a turn makes of the score of equal queries (rows) and keys."""
    assert injection.turn is not None
    turn = injection.turn[0].double()
    stretch = torch.zeros_like(turn) if injection.stretch is None else injection.stretch[0].double()
    query, key = torch.polar(stretch.exp(), turn), torch.polar((-stretch).exp(), turn)
    return (query @ key.conj().T).real / turn.shape[-1]


def decay(pairs: Float[Tensor, "T T"]) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """Distances key - query (2T - 1,), and mean, least and largest of the pairs at each, (3, 2T - 1).

    >>> decay(torch.tensor([[0.0, 1.0], [3.0, 4.0]]))[1].tolist()
    [[3.0, 2.0, 1.0], [3.0, 0.0, 1.0], [3.0, 4.0, 1.0]]
    """
    table = pairs.double().numpy()
    away = np.arange(1 - len(table), len(table))
    lines = [np.diagonal(table, distance) for distance in away]
    return away, np.array([[line.mean(), line.min(), line.max()] for line in lines]).T
