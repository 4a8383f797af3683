"""What an entry of `METHODS` is: how a method is built at a model's size."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from vnait.positions.method import Method


@dataclass(frozen=True, kw_only=True)
class Size:
    """The sizes of the model that a method is built for."""

    dim: int
    num_heads: int = 4
    max_length: int = 512
    mean_length: float = 24.0
    shape: tuple[int, ...] = (-1, 16)
    periods: tuple[float, ...] = (8.0, 64.0)

    @property
    def width(self) -> int:
        """The width of a head."""
        return self.dim // self.num_heads

    @property
    def table(self) -> tuple[int, ...]:
        """The grid's sizes; for -1, with enough rows for the longest text."""
        rows, *others = self.shape
        return (rows if rows > 0 else -(-self.max_length // math.prod(others)), *others)


@dataclass(frozen=True, kw_only=True)
class Recipe:
    """An entry of `METHODS`: a method's constructor, its formula and its source.

    base   the method that this one begins with, if any; a run's key changes with both
    """

    make: Callable[[Size], Method]
    formula: str
    source: str
    base: str | None = None
