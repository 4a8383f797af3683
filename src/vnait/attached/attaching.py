"""`attach` and `detach`: another positional method inside a pretrained model, and the model as it was."""

from __future__ import annotations

import logging
from dataclasses import dataclass
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor, nn
from transformers import PreTrainedModel

from vnait.attached.checking import (
    Start,
    check_arrives,
    check_carried,
    check_clean,
    check_exact,
    check_free,
    check_sides,
    check_site,
    turns_alone,
)
from vnait.attached.crossing import Cross, crossing
from vnait.attached.finding import SUPPORTED, Site, find, probe_ids, states
from vnait.attached.inside import TURN, by_places, inside, restored
from vnait.attached.leaves import Silenced, Turned
from vnait.attached.marking import check_unmarked, mark, unmark
from vnait.attached.old import Rows, Waves, first_row
from vnait.attached.telling import Attached, tell
from vnait.errors import InputError
from vnait.injection import Injection
from vnait.method import Method, described
from vnait.methods import build
from vnait.randomness import apart

logger = logging.getLogger("vnait")


@dataclass(frozen=True, kw_only=True)
class Attachment:
    """What `attach` did; of an encoder-decoder, to its encoder first.

    method      by name, or in words; a side each
    owner       the path of the module that it was attached to, "" for the model itself; a side each
    replaced    paths of the model's own sources of position that it speaks for now
    warm_start  "exact", "fit" or None
    difference  the largest absolute difference that attaching made to the last hidden states of two random texts of up to 128
                tokens; `relative` is their root mean square difference over the states' own. Of both sides, the larger one
    """

    method: tuple[str, ...]
    owner: tuple[str, ...]
    replaced: tuple[str, ...]
    warm_start: Start | None
    difference: float
    relative: float


@dataclass(frozen=True, kw_only=True)
class Called:
    """What `attach` was called with, but for a Method of one's own, whose name is None: what `save_adapter` writes."""

    method: str | None
    decoder: str | None
    described: tuple[str, ...]
    cross: Cross | None
    warm_start: Start | None
    options: dict[str, Any]


def attach(
    model: nn.Module,
    method: str | Method = "vnait",
    *,
    decoder: str | Method | None = None,
    cross: Cross | None = None,
    warm_start: Start | None = "exact",
    **options: Any,
) -> Attachment:
    """Put a positional method into a pretrained model, in place of its own: x = e + old(p) + gate * (method(e) - e).

    method      a name in `vnait.METHODS`, or a `Method`; a causal model takes causal ones alone ("vnait-causal")
    decoder     the decoder's, of an encoder-decoder; None: as `method` where that is a causal name, else "vnait-causal"
    cross       what an encoder-decoder's cross-attention is told besides: "source" the places of its keys, "target" of its queries,
                "relative" their distance in tokens; each starts at nothing
    warm_start  "exact"  the model's outputs stay what they were. Its position table becomes the method's (its rotation, or its bias
                         of distances, stays), read at the method's running place p, which starts at the index; the gate starts at
                         0. Learned afterwards: the table, the places, the gate, and through it the method; the model's own weights
                         as you choose
                "fit"    as exact, with the fewest cosine waves that give the table to 1% of its root mean square, instead of it
                None     the method alone, x = method(e), from its random start: a model to train, not one to use
    options     as of `vnait.build`: mean_length, shape, periods, max_length

    A method built by name comes without its scale (the log length's): a pretrained model keeps the scale of its scores. What a model
    can't carry is refused by name. Texts may be longer than the model's table: an encoder's p are drawn together to end at its last row
    (position interpolation, arXiv 2306.15595), a decoder's stay there.

    The method counts the tokens of `attention_mask`; padding may be on either side. With a cache of keys and values, what it has told
    is what it tells without one. `detach` gives the model back bit for bit. Attach before peft's `get_peft_model`. A type of model
    whose positions are not found can be described in `vnait.attached.FAMILIES`.

    >>> from transformers import BertConfig, BertModel
    >>> small = BertConfig(vocab_size=20, hidden_size=8, num_hidden_layers=1, num_attention_heads=2, intermediate_size=8)
    >>> bert = BertModel(small).eval()
    >>> attach(bert, "vnait").difference < 1e-5
    True
    """
    if warm_start not in ("exact", "fit", None):
        raise InputError(f"warm_start={warm_start!r} is not known; take 'exact', 'fit' or None.")
    name = type(model).__name__
    check_free(model)
    sites = find(model)
    check_unmarked(*(site.owner.config for site in sites))
    check_sides(sites, method, decoder, cross, name)
    methods = [method] if len(sites) == 1 else [method, _of_decoder(method, decoder, sites[0])]
    sides = [
        (site, own, _planned(site, own, options, warm_start, cross if len(sites) == 2 and site.causal else None, name))
        for site, own in zip(sites, methods, strict=True)
    ]
    recipe = Called(
        method=method if isinstance(method, str) else None,
        decoder=methods[-1] if len(methods) == 2 and isinstance(methods[-1], str) else None,
        described=tuple(described(attached.method) for _, _, attached in sides),
        cross=cross,
        warm_start=warm_start,
        options=options,
    )
    found = []
    try:
        if isinstance(model, PreTrainedModel):
            mark(model.config)
        for site, own, attached in sides:
            attached.recipe = recipe
            found.append(_put_in(site, attached, _name(own), warm_start, name))
    except BaseException:
        _take_out(model, [site.owner for site in sites])
        raise
    return Attachment(
        method=tuple(part.method[0] for part in found),
        owner=tuple(part.owner[0] for part in found),
        replaced=tuple(path for part in found for path in part.replaced),
        warm_start=warm_start,
        difference=max(part.difference for part in found),
        relative=max(part.relative for part in found),
    )


def detach(model: nn.Module) -> None:
    """Take the attached method out: the model's state dict and outputs are what they were, bit for bit.

    What was trained in the model's own weights meanwhile stays in them.
    """
    _take_out(model, list(attached_owners(model).values()))


def attached_owners(model: nn.Module) -> dict[str, PreTrainedModel]:
    """By path, the modules that a method is attached to, an encoder's first; or an error."""
    found = {path: part for path, part in model.named_modules() if isinstance(getattr(part, "vnait", None), Attached)}
    if not found:
        raise InputError(f"{type(model).__name__} has no method attached; call vnait.attach(model, ...) first.")
    return dict(sorted(found.items(), key=lambda item: item[1].vnait.causal))


def _of_decoder(method: str | Method, decoder: str | Method | None, site: Site) -> str | Method:
    if decoder is not None:
        return decoder
    with apart():  # it is only asked
        causal = isinstance(method, str) and build(method, dim=site.dim, num_heads=site.heads, max_length=8).causal
    return method if causal else "vnait-causal"


def _planned(
    site: Site,
    method: str | Method,
    options: dict[str, Any],
    warm_start: Start | None,
    cross: Cross | None,
    model: str,
) -> Attached:
    """What will be put into one side, once everything about it is known to fit."""
    check_site(site, model)
    table = site.tables[0].module if site.tables else None
    first = 0 if table is None else first_row(site.owner, table)  # type: ignore[arg-type]
    if first < 0:
        raise InputError(
            f"{model} does not read its position table {site.tables[0].path} row by row; take one of {SUPPORTED}."
        )
    rows = None if table is None else table.weight.detach()[first:]  # type: ignore[operator]
    built = _built(method, site, options, 512 if rows is None else len(rows))
    told = check_carried(built, _name(method), site, warm_start, model)
    return Attached(
        method=built,
        old=None if rows is None or warm_start is None else (Rows if warm_start == "exact" else Waves)(rows),
        warm=warm_start is not None and told.turn is None,
        attention=site.owner.config._attn_implementation if turns_alone(site, told) else None,
        turns=_turns(site, told, warm_start),
        owner=site.owner,
        first=first,
        causal=site.causal,
        biased=told.bias is not None,
        crossing=None if cross is None else crossing(cross, dim=site.dim, heads=site.heads),
        inner=bool(site.attentions),
        slopes=site.slopes,
    ).to(torch.promote_types(site.owner.dtype, torch.float32))


def _put_in(site: Site, attached: Attached, name: str, warm_start: Start | None, model: str) -> Attachment:
    """Everything into its place on one side, and a look at what it changed."""
    owner = site.owner
    before = _probed(site)
    for place in site.tables:
        place.put(Silenced(place.module))  # type: ignore[arg-type]
    for place in site.rotaries:
        place.put(Turned(place.module))
    for place in site.attentions:
        place.module.register_forward_pre_hook(inside, with_kwargs=True)
    if site.slopes:
        by_places(owner)
    mark(owner.config)
    if attached.attention is not None:
        owner.set_attn_implementation(TURN)
    owner.vnait = attached.to(owner.get_input_embeddings().weight.device).train(owner.training)
    owner.register_forward_pre_hook(tell, with_kwargs=True)
    check_clean(site, model)
    check_arrives(owner, name, model)
    attachment = _measured(site, name, warm_start, before, _probed(site))
    check_exact(attachment.relative, before.dtype, warm_start, model)
    logger.info(
        "%s is attached to %s for %s, warm start %s: the states differ by at most %.2g (relative %.2g).",
        name,
        site.path or model,
        ", ".join(attachment.replaced),
        warm_start,
        attachment.difference,
        attachment.relative,
    )
    return attachment


def _take_out(model: nn.Module, owners: list[PreTrainedModel]) -> None:
    """What there is of ours in these modules."""
    if isinstance(model, PreTrainedModel):
        unmark(model.config)
    for owner in owners:
        restored(owner)
        unmark(owner.config)
        for path, module in list(owner.named_modules()):
            for key in [key for key, hook in module._forward_pre_hooks.items() if hook in (tell, inside)]:
                del module._forward_pre_hooks[key]
                module._forward_pre_hooks_with_kwargs.pop(key, None)
            if isinstance(module, Silenced | Turned):
                parent, _, key = path.rpartition(".")
                setattr(owner.get_submodule(parent), key, module.restored())
        if hasattr(owner, "vnait"):
            if owner.vnait.attention is not None:
                owner.set_attn_implementation(owner.vnait.attention)
            del owner.vnait


def _probed(site: Site) -> Float[Tensor, "N D"]:
    """The states of the real tokens of two random texts, one of them half as long and padded."""
    ids = probe_ids(site.owner, 2, _probe_length(site))
    real = torch.ones_like(ids)
    real[1, ids.shape[1] // 2 + 1 :] = 0
    return states(site.owner, ids, attention_mask=real)[real.bool()]


def _measured(site: Site, name: str, warm_start: Start | None, before: Tensor, after: Tensor) -> Attachment:
    difference = (after - before).float()
    return Attachment(
        method=(name,),
        owner=(site.path,),
        replaced=tuple(f"{site.path}.{path}".removeprefix(".") for path in site.own),
        warm_start=warm_start,
        difference=float(difference.abs().max()),
        relative=float(difference.square().mean().sqrt() / before.float().square().mean().sqrt().clamp(min=1e-30)),
    )


def _probe_length(site: Site) -> int:
    """Of texts that the model could read before."""
    limits = [len(place.module.weight) // 2 + 1 for place in site.tables if len(place.module.weight) < 256]  # type: ignore[arg-type]
    return min([128, *limits])


def _name(method: str | Method) -> str:
    return method if isinstance(method, str) else described(method)


def _built(method: str | Method, site: Site, options: dict[str, Any], length: int) -> Method:
    if isinstance(method, Method):
        if options:
            raise InputError(
                f"options {', '.join(options)} were given with a Method, which is built already; leave them out."
            )
        return method
    allowed = {"mean_length", "shape", "periods", "max_length"}
    if unknown := sorted(set(options) - allowed):
        raise InputError(f"attach has no option {', '.join(unknown)}; take {', '.join(sorted(allowed))}.")
    built = build(method, dim=site.dim, num_heads=site.heads, **{"max_length": length, **options})
    if built.scale is not None:
        logger.info("%s is attached without its scale: a pretrained model keeps the scale of its scores.", method)
        built.scale = None
    return built


def _turns(site: Site, told: Injection, warm_start: Start | None) -> str | None:
    if told.turn is not None and site.rotaries:
        return "coordinates"
    if not (site.rotaries or site.relatives or site.slopes):
        return None
    return "nothing" if warm_start is None else "running"
