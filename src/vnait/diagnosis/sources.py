"""Rules of the sources of position: none, one that never acts, two at once."""

from collections.abc import Iterator
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from vnait.diagnosis.rule import Evidence, NotTried, Severity, rule
from vnait.diagnosis.subject import Subject, difference
from vnait.pretrained.locate import Site

ORDER = [3, 0, 4, 2, 1, 5]  # of six tokens; the last one stays
TABLE, ROTATION, BIAS = "a position table", "a rotation", "a bias of distances"


class Source(NamedTuple):
    """A source of position: its kind, its path, and the tensors without which it does nothing."""

    kind: str
    path: str
    names: tuple[str, ...]


def reordered(model: Any, ids: Tensor, order: list[int], **more: Any) -> float:
    """How much the output of every token changes if the tokens are reordered; 0 without position."""
    one, other = model(input_ids=ids, **more)[0], model(input_ids=ids[:, order], **more)[0]
    return difference(one if more else one[:, order], other)


def reordered_before(model: Any, ids: Tensor, order: list[int]) -> float:
    """How much the last token's state after the first layer changes if the tokens before are reordered."""
    rows = (ids, ids[:, order])
    one, other = (model(input_ids=row, output_hidden_states=True).hidden_states[1][:, -1] for row in rows)
    return difference(one, other)


def without(model: Any, ids: Tensor, names: list[str], **more: Any) -> float:
    """How much outputs change if these tensors are zero."""
    tensors = dict([*model.named_parameters(), *model.named_buffers()])
    zeros, inputs = {name: torch.zeros_like(tensors[name]) for name in names}, {"input_ids": ids, **more}
    return difference(model(**inputs)[0], torch.func.functional_call(model, zeros, (), inputs)[0])


def reordered_without(model: Any, ids: Tensor, order: list[int], names: list[str]) -> float:
    """How much the last token's first state changes if the tokens before it are reordered, without these."""
    tensors = dict([*model.named_parameters(), *model.named_buffers()])
    zeros = {name: torch.zeros_like(tensors[name]) for name in names}
    rows = [{"input_ids": row, "output_hidden_states": True} for row in (ids, ids[:, order])]
    one, other = (torch.func.functional_call(model, zeros, (), row).hidden_states[1][:, -1] for row in rows)
    return difference(one, other)


@rule(
    "SRC01",
    "no position",
    Severity.BUG,
    advice="do not use it where order matters; vnait.attach can give it a source of position",
)
def no_position(subject: Subject) -> Evidence | None:
    """The model does not know in which order its tokens are."""
    measure, more = (reordered_before, {}) if subject.causal else (reordered, subject.more)
    arguments = {"ids": subject.text(len(ORDER)), "order": ORDER, **more}
    size = subject.measure(measure, **arguments)
    if size > subject.tolerance / 10 or (
        subject.causal and any(_acts(subject, one) for one in _sources(subject))
    ):
        return None
    by_design = subject.causal and not list(_sources(subject))  # a decoder knows order by its mask
    where = "the first layer's states move" if subject.causal else "outputs move"
    return Evidence(
        size=size,
        measured=f"{where} by {size:.1g} of the largest if the tokens are reordered",
        smallest=f"{len(ORDER)} tokens",
        reproduction=subject.script(measure, **arguments),
        shown=size,
        severity=Severity.LIMIT if by_design else Severity.BUG,
    )


@rule(
    "SRC02",
    "a source without effect",
    Severity.BUG,
    advice="load the model with a class that reads it, or restore the part that was replaced",
)
def without_effect(subject: Subject) -> Evidence | None:
    """The model carries a source of position that changes no output."""
    sources = list(_sources(subject))
    if not sources:
        raise NotTried("it has no position table and no rotation")
    for source in sources:
        if not _acts(subject, source):
            arguments = {"ids": subject.text(len(ORDER)), "names": list(source.names), **subject.more}
            return Evidence(
                size=0.0,
                measured=f"without {source.path}, {source.kind}, outputs move by 0",
                smallest=f"{len(ORDER)} tokens",
                reproduction=subject.script(without, part=subject.model, **arguments),
                shown=0.0,
            )
    return None


@rule(
    "SRC03",
    "two sources",
    Severity.BUG,
    advice="remove one of them: each is read as if it were the only one",
)
def two_sources(subject: Subject) -> Evidence | None:
    """Two sources of position act at once."""
    acting = [source for source in _sources(subject) if _acts(subject, source)]
    kinds = {source.kind: source.path for source in acting}
    kinds |= {BIAS: "build_alibi_tensor"} if any(site.alibi for site in subject.sites) else {}
    if len(kinds) > 1:
        return _both(subject, acting, kinds)
    if len(kinds) == 1 and acting and not subject.encodes_and_decodes:
        return _unknown(subject, acting, *kinds)
    return None


def _both(subject: Subject, acting: list[Source], kinds: dict[str, str]) -> Evidence:
    arguments = {"ids": subject.text(len(ORDER)), "names": list(acting[0].names), **subject.more}
    size = subject.measure(without, part=subject.model, **arguments)
    designed = BIAS in kinds and ROTATION not in kinds  # as MPNet's and DeBERTa's
    designed = designed and not any(site.alibi for site in subject.sites)
    return Evidence(
        size=size,
        measured=" and ".join(f"{kind} ({path})" for kind, path in kinds.items()) + " act",
        smallest=f"{len(ORDER)} tokens",
        reproduction=subject.script(without, part=subject.model, **arguments),
        shown=size,
        severity=Severity.LIMIT if designed else None,
    )


def _unknown(subject: Subject, acting: list[Source], kind: str) -> Evidence | None:
    """A source that is left when the known ones are off; a convolution is one by design."""
    names = [name for source in acting for name in source.names]
    arguments = {"ids": subject.text(len(ORDER)), "order": ORDER, "names": names}
    size = subject.measure(reordered_without, part=subject.model, **arguments)
    if size <= subject.tolerance:
        return None
    inside = [path for site in subject.sites for path in site.inside]
    return Evidence(
        size=size,
        measured=f"without {kind}, another order still moves the first layer's states by {size:.2g}",
        smallest=f"{len(ORDER)} tokens",
        reproduction=subject.script(reordered_without, part=subject.model, **arguments),
        shown=size,
        severity=Severity.LIMIT if inside else None,
    )


def _sources(subject: Subject) -> Iterator[Source]:
    for site in subject.sites:
        yield from _of_site(site)


def _of_site(site: Site) -> Iterator[Source]:
    before = f"{site.path}." if site.path else ""
    for table in site.tables:
        yield Source(TABLE, before + table.path, (f"{before}{table.path}.weight",))
    for rotary in site.rotaries:
        names = [name for name, _ in rotary.module.named_buffers(recurse=False) if name.endswith("inv_freq")]
        yield Source(ROTATION, before + rotary.path, tuple(f"{before}{rotary.path}.{name}" for name in names))
    for part in site.relatives:
        path = f"{before}{part.path}.relative_attention_bias"
        yield Source(BIAS, path, (f"{path}.weight",))
    for inner in site.inside:
        if isinstance(site.owner.get_submodule(inner), nn.Embedding):
            yield Source(BIAS, before + inner, (f"{before}{inner}.weight",))


def _acts(subject: Subject, source: Source) -> bool:
    arguments = {"ids": subject.text(len(ORDER)), "names": list(source.names), **subject.more}
    return subject.measure(without, part=subject.model, **arguments) > 0
