"""`build`: a positional method at a model's size; and how many parameters methods have."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any
from weakref import WeakSet

from torch import nn

from vnait.positions.coordinates.elastic import Gate
from vnait.positions.coordinates.grids import Joined
from vnait.positions.encodings.combined import Axis, Sum
from vnait.positions.encodings.spatial import Spatial
from vnait.positions.encodings.tables import Table
from vnait.positions.inputs.fusion import Fusion, LiteralFusion
from vnait.positions.method import Method, described
from vnait.positions.methods import METHODS
from vnait.positions.recipe import Size
from vnait.shared.errors import InputError, did_you_mean

DIM, MAX_LENGTH = 768, 512  # of `rows`
TIED_START = 0.03  # the root mean square of words is 1
_MADE: WeakSet[Method] = WeakSet()  # by recipes, to find one that returns the same module again


def build(
    method: str | Method,
    *,
    dim: int,
    num_heads: int = 4,
    max_length: int = 512,
    mean_length: float = 24.0,
    shape: Sequence[int] = (-1, 16),
    periods: Sequence[float] = (8.0, 64.0),
) -> Method:
    """The positional method `method` at a model's size: a name in `METHODS`, or a `Method`, as it is.

    max_length    longest text, for methods with a table
    mean_length   mean training length, for methods that scale the scores by log length
    shape         sizes of the grid for grid-*, in reading order; -1 for any number of rows
    periods       for phase, in tokens, or in the unit of known positions

    Several methods are an error: a model has exactly one.

    >>> import torch
    >>> build("sinusoidal", dim=8)(torch.zeros(1, 2, 8), torch.ones(1, 2, dtype=torch.bool)).at[0, :, 0]
    tensor([0., 1.])
    """
    if isinstance(method, Method):
        return method
    if not isinstance(method, str) or method not in METHODS:
        _refuse_several(method)
        raise InputError(
            f"method {method!r} is not known.{did_you_mean(str(method), METHODS)} Take one of "
            f"{', '.join(METHODS)}, or register it in vnait.METHODS."
        )
    if min(dim, num_heads) < 1:
        raise InputError(f"dim is {dim} and num_heads {num_heads}; both must be 1 or more.")
    size = Size(
        dim=dim,
        num_heads=num_heads,
        max_length=max_length,
        mean_length=mean_length,
        shape=tuple(shape),
        periods=tuple(periods),
    )
    try:
        made = METHODS[method].make(size)
    except ValueError as error:  # of a part, which knows neither the method nor the model
        raise InputError(f"{method} can't be built at width {dim} with {num_heads} heads: {error}") from error
    if made in _MADE:
        raise InputError(
            f"the recipe of {method} returns the same module again, whose weights two models would "
            "share; build it within `make`."
        )
    _MADE.add(made)
    return made


def for_pretrained(built: Method) -> Method:
    """The method without what would change a pretrained model's attention from the start: its scale, and, if
    it adds a spatial vector, its rotation or bias, with the coordinates that nothing else reads. Its gates
    learn as fast as its other weights, which fine-tuning makes faster than the model's.
    """
    built.scale = None
    for part in built.modules():
        if isinstance(part, Gate):
            part.speed = 1.0
    if isinstance(built.encoding, Sum):
        first = built.encoding.encodings[0]
        spatial = first.encodings[0] if isinstance(first, Axis) else first
        if isinstance(spatial, Spatial):
            built.encoding = spatial
            if isinstance(built.coordinates, Joined):
                built.coordinates = built.coordinates.coordinates[0]
    return built


def for_masked_tokens(built: Method) -> Method:
    """The method for a model of masked tokens, whose output table is the table of words.

    All that is added to a word is noise in its logits, so the random map of s starts at `TIED_START`, s at
    0.14. Gates learn nothing: where every token is predicted, weights that are learned only blur the
    neighbours (`studies/findings/`).
    """
    for part in built.modules():
        if isinstance(part, Spatial):
            part.shrink(TIED_START)
        elif isinstance(part, Gate):
            part.requires_grad_(False)
    return built


def _refuse_several(method: object) -> None:
    """Raise an error for a list of methods, or of names joined by + or a comma."""
    several = re.split(r"\s*[+,]\s*", method) if isinstance(method, str) else method
    if isinstance(several, list | tuple) and len(several) != 1:
        names = " and ".join(described(part) if isinstance(part, Method) else str(part) for part in several)
        raise InputError(
            f"a model has exactly one positional method, given {names or 'none'}; take one of them, or a "
            "Method whose encoding is the Sum of theirs."
        )
    if not isinstance(method, str):
        raise InputError(f"method={method!r}; give a name in vnait.METHODS, or a Method.")


def parameters(module: nn.Module) -> int:
    """The number of learned scalars in a module."""
    return sum(parameter.numel() for parameter in module.parameters() if parameter.requires_grad)


def rows(*, dim: int = DIM, max_length: int = MAX_LENGTH) -> list[dict[str, Any]]:
    """`METHODS` as rows: name, formula, parameters (at this width and length), learned, causal, source."""
    methods = {name: build(name, dim=dim, max_length=max_length) for name in METHODS}
    return [
        {
            "name": name,
            "formula": METHODS[name].formula,
            "parameters": parameters(method),
            "learned": parameters(method) > 0,
            "causal": method.causal,
            "source": METHODS[name].source,
        }
        for name, method in methods.items()
    ]


def sizes(*, dim: int = 768) -> list[dict[str, str | int | float]]:
    """The parameter counts of docs/faithfulness.md, with their ratio to a table of 512 rows."""
    spatial = {hidden: Spatial(dim=dim, features="scalar", hidden=(hidden,)) for hidden in (64, 2 * dim)}
    counted: dict[str, list[nn.Module]] = {
        "learned table, 512 rows": [Table(dim=dim, max_length=512)],
        "learned table, 1024 rows": [Table(dim=dim, max_length=1024)],
        "the papers' sizes (hidden 2d)": [spatial[2 * dim], LiteralFusion(dim=dim, hidden=2 * dim)],
        "what the papers count (one d-2d-d MLP)": [nn.Linear(dim, 2 * dim), nn.Linear(2 * dim, dim)],
        "compact, bottleneck 16": [spatial[64], Fusion(dim=dim, hidden=16)],
        "compact, bottleneck 64": [spatial[64], Fusion(dim=dim, hidden=64)],
        "vnait, the default": [build("vnait", dim=dim)],
    }
    table = parameters(counted["learned table, 512 rows"][0])
    counts = {name: sum(map(parameters, modules)) for name, modules in counted.items()}
    return [
        {"name": name, "parameters": count, "against_table_512": count / table}
        for name, count in counts.items()
    ]
