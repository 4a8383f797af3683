"""`audit`: every source of position in a model, by name, and whether one is left when all that were found say nothing."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass

import torch
from torch import nn
from transformers import PreTrainedModel

from vnait.attached.finding import find, looks_back, owner_of, probe_ids, states
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
    _, owner = owner_of(model)
    site = find(model)
    sources = [Source(path=place.path, kind="position table", speaks=True) for place in site.tables]
    silent = [path for path, part in owner.named_modules() if isinstance(part, Silenced)]
    sources += [Source(path=path, kind="position table, silenced", speaks=False) for path in silent]
    for place in site.rotaries:
        turned = isinstance(place.parent, Turned)
        path = place.path.removesuffix(".rotary") if turned else place.path
        kind = f"rotation by the method's places ({owner.vnait.turns})" if turned else "rotation"
        sources.append(Source(path=path, kind=kind, speaks=not turned))
    sources += [Source(path=path, kind="inside the layers", speaks=True) for path in site.others]
    if isinstance(attached := getattr(owner, "vnait", None), Attached):
        sources.append(Source(path="vnait", kind=f"attached method: {described(attached.method)}", speaks=True))
    return Audit(sources=tuple(sources), leftover=leftover(owner))


def leftover(owner: PreTrainedModel) -> float:
    """As in `Audit`."""
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
    depth = owner.config.num_hidden_layers
    stacks = [
        (parent, key, stack)
        for parent in owner.modules()
        for key, stack in parent.named_children()
        if isinstance(stack, nn.ModuleList) and len(stack) == depth
    ]
    for parent, key, stack in stacks:
        setattr(parent, key, stack[:1])
    try:
        with torch.no_grad():
            yield
    finally:
        for parent, key, stack in stacks:
            setattr(parent, key, stack)
