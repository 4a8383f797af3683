"""`audit`: name every source of position in a model, and measure whether another one is left."""

from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass

from torch import nn
from transformers import PreTrainedModel

from vnait.positions.gradients import gradient_shares
from vnait.positions.method import described
from vnait.pretrained.attach.attached import attached_to
from vnait.pretrained.attach.cross_attention import CROSS_ATTENTION
from vnait.pretrained.layers import DifferentiableRotary, SilencedTable
from vnait.pretrained.locate import Site, find_sites, is_causal, last_states, probe, shuffled
from vnait.pretrained.windows import ORDER, windows_of_layers
from vnait.shared.errors import InputError


@dataclass(frozen=True, kw_only=True)
class PositionSource:
    """A source of position: its path, its kind, and whether it acts, on its own or by the method."""

    path: str
    kind: str
    active: bool


@dataclass(frozen=True, kw_only=True)
class Audit:
    """The sources of position in a model, and what is left without them.

    leftover    largest change of the last token's state when the tokens before it are permuted, over the
                largest state, with every coordinate of an attached method at zero. 0 up to rounding if there
                is no other source. For a causal model, of its first layer only: deeper ones know the order
                from what each token could see
    gradient    after `loss.backward()`, the share of each part in the squared norm of the gradient, as
                `gradient_shares` gives it; empty without a gradient
    """

    sources: tuple[PositionSource, ...]
    leftover: float
    gradient: dict[str, float]


def audit(model: nn.Module) -> Audit:
    """Name every source of position in a model and measure what is left without them: `Audit`.

    >>> from transformers import GPT2Config, GPT2Model
    >>> model = GPT2Model(GPT2Config(vocab_size=20, n_embd=8, n_layer=1, n_head=2, n_positions=16))
    >>> [(source.path, source.kind) for source in audit(model).sources]
    [('wpe', 'position table')]
    """
    if not isinstance(model, nn.Module):
        raise InputError(f"audit takes a model of transformers, not {model!r}; load it first.")
    sites = find_sites(model)
    return Audit(
        sources=tuple(
            PositionSource(path=f"{site.path}.{path}".removeprefix("."), kind=kind, active=active)
            for site in sites
            for path, kind, active in _sources(site)
        ),
        leftover=max(leftover_of(site.owner) for site in sites),
        gradient=gradient_shares(model),
    )


def _sources(site: Site) -> Iterator[tuple[str, str, bool]]:
    """Path in the owner, kind, and whether it acts."""
    attached = attached_to(site.owner)
    alone = attached is None
    acts = attached is None or attached.own_places != "zero"
    for table in site.tables:
        yield table.path, "position table", True
    turning = [part.path for part in site.turning]
    for path, part in site.owner.named_modules():
        if isinstance(part, SilencedTable) and path not in turning:
            yield path, "position table, silenced", False
    if site.patches is not None:
        kind = "position table" if alone else "position table, silenced"
        yield f"{site.patches.path}.position_embeddings", kind, alone
    by = "" if attached is None else f" by the method's positions ({attached.own_places})"
    for rotary in site.rotaries:
        if isinstance(rotary.parent, DifferentiableRotary):
            yield rotary.path.removesuffix(".rotary"), f"rotation{by}", acts
        else:
            yield rotary.path, "rotation", True
    for path in turning:
        yield path, f"rotation{by}", acts
    distances = [f"{part.path}.relative_attention_bias" for part in site.relatives]
    for path in [*distances, *(["build_alibi_tensor"] if site.alibi else [])]:
        yield path, f"bias of distances{by}", acts
    for path in site.inside:
        yield path, "inside the layers", True
    if attached is not None:
        yield "vnait", f"attached method: {described(attached.method)}", True
        for name, part_of in CROSS_ATTENTION.items():
            if isinstance(attached.crossing, part_of):
                yield "vnait.crossing", f"cross-attention: {name}", True


def leftover_of(owner: PreTrainedModel) -> float:
    """`Audit.leftover` of one side."""
    first = probe(owner, 1, 6)
    second = shuffled(owner, first)
    # Deeper layers know the order by what each token could see.
    windows = windows_of_layers(owner.config)
    narrow = any(window is not None and window < len(ORDER) for window in windows)
    limited = is_causal(owner) or windows[0] is not None or narrow
    with disabled(owner), _first_layer_only(owner) if limited else nullcontext():
        before, after = (last_states(owner, read)[0, -1] for read in (first, second))
    return float((before - after).abs().max() / before.abs().max().clamp(min=1e-30))


@contextmanager
def disabled(owner: PreTrainedModel) -> Iterator[None]:
    """What is attached, if anything, without effect: all places at zero."""
    attached = attached_to(owner)
    if attached is None:
        yield
        return
    attached.disabled = True
    try:
        yield
    finally:
        attached.disabled = False


@contextmanager
def _first_layer_only(owner: PreTrainedModel) -> Iterator[None]:
    lists = {path: part for path, part in owner.named_modules() if isinstance(part, nn.ModuleList)}
    stacks = []
    for path, stack in lists.items():
        if not any(path.startswith(f"{outer}.") for outer in lists):  # a layer may be a list itself
            parent, _, key = path.rpartition(".")
            stacks.append((owner.get_submodule(parent), key, stack))
    for parent, key, stack in stacks:
        setattr(parent, key, stack[:1])
    try:
        yield
    finally:
        for parent, key, stack in stacks:
            setattr(parent, key, stack)
