"""The injection of a method for one text, and the numbers that panels draw of it."""

from __future__ import annotations

import numpy as np
import torch
from jaxtyping import Float
from numpy.typing import NDArray
from torch import Tensor
from torch.nn import functional as F

from vnait.drawing.examples import SEED
from vnait.errors import InputError
from vnait.injection import Injection
from vnait.method import Method, MethodOutput
from vnait.randomness import apart

DRAWS = 3  # of coordinates that training draws at random


@torch.no_grad()
def evaluate(method: Method, vectors: Float[Tensor, "T D"]) -> MethodOutput:
    """Apply a method to one text in evaluation mode; the bias is computed for every pair."""
    was = method.training
    method.eval()
    try:
        found = method(vectors[None], torch.ones(1, len(vectors), dtype=torch.bool))
    except ValueError as error:
        raise InputError(str(error)) from error
    finally:
        method.train(was)
    return found._replace(injection=found.injection.dense())


@torch.no_grad()
def drawn_in_training(method: Method, vectors: Float[Tensor, "T D"]) -> list[Float[Tensor, "T C"]]:
    """`DRAWS` draws of the coordinates in training mode; empty if they equal those in evaluation."""
    mask = torch.ones(1, len(vectors), dtype=torch.bool)
    at = evaluate(method, vectors).at
    was = method.training
    method.train()
    try:
        with apart():
            torch.manual_seed(SEED)
            draws = [method.coordinates(vectors[None], mask) for _ in range(DRAWS)]
    finally:
        method.train(was)
    return [] if all(torch.equal(draw, at) for draw in draws) else [draw[0] for draw in draws]


def similarity(injection: Injection) -> Float[Tensor, "T T"]:
    """The cosine of every two added vectors of the first text; 0 if one of them is zero."""
    assert injection.added is not None
    codes = F.normalize(injection.added[0].double(), dim=-1)
    return codes @ codes.T


def kernel(injection: Injection) -> Float[Tensor, "T T"]:
    """mean_k exp(stretch_ik - stretch_jk) cos(angle_ik - angle_jk): the mean score of query i and key j, if
    all queries and keys are equal before they are rotated.
    """
    assert injection.rotary is not None
    angle = injection.rotary[0].double()
    stretch = torch.zeros_like(angle) if injection.stretch is None else injection.stretch[0].double()
    query, key = torch.polar(stretch.exp(), angle), torch.polar((-stretch).exp(), angle)
    return (query @ key.conj().T).real / angle.shape[-1]


def decay(pairs: Float[Tensor, "T T"]) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """Distances key - query (2T - 1,), and the mean, minimum and maximum of the pairs at each, (3, 2T - 1).

    >>> decay(torch.tensor([[0.0, 1.0], [3.0, 4.0]]))[1].tolist()
    [[3.0, 2.0, 1.0], [3.0, 0.0, 1.0], [3.0, 4.0, 1.0]]
    """
    table = pairs.double().numpy()
    distances = np.arange(1 - len(table), len(table))
    lines = [np.diagonal(table, distance) for distance in distances]
    return distances, np.array([[line.mean(), line.min(), line.max()] for line in lines]).T
