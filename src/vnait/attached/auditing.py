"""`audit`: every source of position in a model, by name, and whether one is left when all that were found say nothing."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass

import torch
from torch import nn
from transformers import PreTrainedModel

from vnait.attached.finding import Site, find, looks_back, probe_ids, states
from vnait.attached.leaves import Silenced, Turned
from vnait.attached.telling import Attached
from vnait.method import described


@dataclass(frozen=True, kw_only=True)
class Source:
    """Something that tells position: its path, what it is, and whether it still does on its own."""

    path: str
    kind: str
    speaks: bool


@dataclass(frozen=True, kw_only=True)
class Audit:
    """The sources of position found in a model, and what is left of position without them.

    leftover    the largest change of the last token's state when the tokens before it change places, over the states' largest
                number, with every coordinate of an attached method at zero; in a causal model, of its first layer alone, since
                deeper ones know the order from what each token could see. 0 but for rounding where nothing else tells position
    """

    sources: tuple[Source, ...]
    leftover: float


def audit(model: nn.Module) -> Audit:
    """Name every source of position in a model and measure what they leave: `Audit(sources, leftover)`.

    >>> from transformers import GPT2Config, GPT2Model
    >>> model = GPT2Model(GPT2Config(vocab_size=20, n_embd=8, n_layer=1, n_head=2, n_positions=16))
    >>> [(source.path, source.kind) for source in audit(model).sources]
    [('wpe', 'position table')]
    """
    sites = find(model)
    return Audit(
        sources=tuple(source for site in sites for source in _sources(site)),
        leftover=max(left_by(site.owner) for site in sites),
    )


def _sources(site: Site) -> Iterator[Source]:
    owner, at = site.owner, f"{site.path}." if site.path else ""
    attached = getattr(owner, "vnait", None)
    attached = attached if isinstance(attached, Attached) else None
    for place in site.tables:
        yield Source(path=at + place.path, kind="position table", speaks=True)
    for path, part in owner.named_modules():
        if isinstance(part, Silenced):
            yield Source(path=at + path, kind="position table, silenced", speaks=False)
    by = "" if attached is None else f" by the method's places ({attached.turns})"
    for place in site.rotaries:
        turned = isinstance(place.parent, Turned)
        path = place.path.removesuffix(".rotary") if turned else place.path
        yield Source(path=at + path, kind="rotation" + (by if turned else ""), speaks=not turned)
    distances = [f"{place.path}.relative_attention_bias" for place in site.relatives]
    for path in [*distances, *(["build_alibi_tensor"] if site.slopes else [])]:
        yield Source(path=at + path, kind="bias of distances" + by, speaks=attached is None)
    for path in site.others:
        yield Source(path=at + path, kind="inside the layers", speaks=True)
    if attached is not None:
        yield Source(path=at + "vnait", kind=f"attached method: {described(attached.method)}", speaks=True)
        if attached.crossing is not None:
            kind = f"cross-attention: {type(attached.crossing).__name__.lower()}"
            yield Source(path=at + "vnait.crossing", kind=kind, speaks=True)


def left_by(owner: PreTrainedModel) -> float:
    """`Audit.leftover` of one side."""
    ids = probe_ids(owner, 1, 6)
    other = ids[:, [3, 0, 4, 2, 1, 5]]
    causal = looks_back(owner)
    with _nowhere(owner), _first_layer(owner) if causal else nullcontext():
        one, two = states(owner, ids)[0, -1], states(owner, other)[0, -1]
    return float((one - two).abs().max() / one.abs().max().clamp(min=1e-30))


@contextmanager
def _nowhere(owner: PreTrainedModel) -> Iterator[None]:
    """All coordinates of an attached method at zero, and nothing told."""
    attached = getattr(owner, "vnait", None)
    if not isinstance(attached, Attached):
        yield
        return
    attached.silent = True
    try:
        yield
    finally:
        attached.silent = False


@contextmanager
def _first_layer(owner: PreTrainedModel) -> Iterator[None]:
    """The model with its first layer alone."""
    lists = {path: part for path, part in owner.named_modules() if isinstance(part, nn.ModuleList)}
    stacks = []
    for path, stack in lists.items():
        if not any(path.startswith(f"{outer}.") for outer in lists):  # a layer may be a list itself
            parent, _, key = path.rpartition(".")
            stacks.append((owner.get_submodule(parent), key, stack))
    for parent, key, stack in stacks:
        setattr(parent, key, stack[:1])
    try:
        with torch.no_grad():
            yield
    finally:
        for parent, key, stack in stacks:
            setattr(parent, key, stack)
