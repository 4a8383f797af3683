"""`attach` puts another positional method into a pretrained model; `detach` takes it out again."""

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor, nn
from transformers import DynamicCache, PreTrainedModel

from vnait.positions.building import build, for_pretrained
from vnait.positions.encodings import Rotary
from vnait.positions.injection import Injection
from vnait.positions.method import Method, described
from vnait.positions.methods import CAUSAL
from vnait.pretrained.attach.attached import Attached, attached_owners
from vnait.pretrained.attach.auditing import disabled, leftover_of
from vnait.pretrained.attach.checks import (
    WarmStart,
    check_exact,
    check_no_other_position,
    check_sides,
    check_site,
    check_supported,
    needs_rotary_attention,
    not_accepted,
)
from vnait.pretrained.attach.cross_attention import CROSS_ATTENTION, Cross
from vnait.pretrained.attach.files import is_attached
from vnait.pretrained.attach.forward import class_with_method, with_positions
from vnait.pretrained.changing import (
    check_free,
    check_weights,
    enter_classes,
    give_parent,
    leave_classes,
    remove_hooks,
)
from vnait.pretrained.layers import (
    ATTENTION_INPUTS,
    ROTARY,
    DifferentiableRotary,
    SilencedTable,
    WithoutPosition,
    original_length,
    parent_of,
    pre_attention,
    pre_cross_attention,
    rows_of,
)
from vnait.pretrained.locate import SUPPORTED, Site, find_sites, first_row, last_states, probe, probe_ids
from vnait.pretrained.table import Rows
from vnait.shared.errors import InputError
from vnait.shared.randomness import preserved_generators
from vnait.shared.values import precision

logger = logging.getLogger("vnait")
OPTIONS = {"max_length", "mean_length", "periods", "shape"}


@dataclass(frozen=True, kw_only=True)
class Attachment:
    """The result of `attach`; for an encoder-decoder, tuples start with the encoder.

    method      name or description of the method, per side
    owner       path of the module it is attached to, "" for the model itself, per side
    replaced    paths of the model's own position modules that it replaces
    warm_start  "exact" or None
    difference  largest absolute change of the last hidden states of two random texts of up to 128 tokens
    relative    root mean square of that change over the root mean square of the states; both numbers are
                the larger one of the two sides
    """

    method: tuple[str, ...]
    owner: tuple[str, ...]
    replaced: tuple[str, ...]
    warm_start: WarmStart | None
    difference: float
    relative: float


class _Side(NamedTuple):
    site: Site
    method: str | Method  # as it was passed
    attached: Attached

    @property
    def name(self) -> str:
        """The name of the method, or its description."""
        return self.method if isinstance(self.method, str) else described(self.method)


@torch.inference_mode(False)  # so that what is made can be trained, wherever it is called
def attach(
    model: nn.Module,
    method: str | Method = "vnait",
    *,
    decoder: str | Method | None = None,
    cross: Cross | None = None,
    warm_start: WarmStart | None = "exact",
    **options: Any,
) -> Attachment:
    """Replace a pretrained model's positions: x = e + old(p) + gate * (m(e) - e), m(e) = c method(e / c).

    c is the power of 2 next to the root mean square of the word vectors. docs/attach.md has the details.

    Args:
        method: a name in `vnait.METHODS`, or a `Method`; causal models accept causal methods only
        decoder: the method of an encoder-decoder's decoder; None: `method` if that is the name of a causal
            one, else "vnait-causal"
        cross: position in an encoder-decoder's cross-attention, starting from zero: "source" positions of
            its keys, "target" positions of its queries, "relative" their distance in tokens
        warm_start: "exact" leaves the outputs as they are: the model's own table, rotation or distance bias
            stays, read at the method's running place p, which starts at the token index; the gate starts at
            0. None starts from the method alone, x = m(e), at random: a model to train, not to use.
        options: mean_length, shape, periods, max_length, as for `vnait.build`; a method without use for one
            ignores it

    Raises:
        InputError: the model can't carry the method; the message names the reason.

    >>> from transformers import BertConfig, BertModel
    >>> sizes = {"hidden_size": 8, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 8}
    >>> attach(BertModel(BertConfig(vocab_size=20, **sizes)).eval(), "vnait").difference < 1e-5
    True
    """
    _check_arguments(model, method, decoder, warm_start)
    sites, name = find_sites(model), type(model).__name__
    check_sides(sites, method, decoder, cross, name)
    sides = [_side(sites[0], method, options, warm_start, None, name)]
    if len(sites) == 2:
        of_decoder = _decoder_default(method, sites[0]) if decoder is None else decoder
        sides.append(_side(sites[1], of_decoder, options, warm_start, cross, name))
    settings = {"cross": cross, "warm_start": warm_start, "options": options}
    try:
        changes = [_insert(side, {**_names(sides), **settings}, model) for side in sides]
    except BaseException:  # an interrupt, too, must leave the model as it was
        _remove(model, [site.owner for site in sites])
        raise
    return Attachment(
        method=tuple(side.name for side in sides),
        owner=tuple(site.path for site in sites),
        replaced=tuple(path for site in sites for path in site.replaced),
        warm_start=warm_start,
        difference=max(difference for difference, _ in changes),
        relative=max(relative for _, relative in changes),
    )


def detach(model: nn.Module) -> None:
    """Remove the attached method: state dict and outputs are restored bit for bit.

    Changes of the model's own weights by training meanwhile remain.
    """
    _remove(model, list(attached_owners(model).values()))


def _check_arguments(model: nn.Module, method: object, decoder: object, warm_start: WarmStart | None) -> None:
    if not isinstance(model, nn.Module):
        raise InputError(f"attach takes a model of transformers, not {model!r}; load it first.")
    if wrong := [part for part in (method, decoder) if not isinstance(part, str | Method | None)]:
        raise InputError(f"{wrong[0]!r} is not a method; a model has exactly one: give a name or a Method.")
    if warm_start not in ("exact", None):
        raise InputError(f"warm_start={warm_start!r} is not known; take 'exact' or None.")
    check_free(model)
    check_weights(model)


def _names(sides: list[_Side]) -> dict[str, Any]:
    """The methods as `save_adapter` writes them; a `Method` object has no name."""
    names = [side.method if isinstance(side.method, str) else None for side in sides]
    method, decoder = [*names, None][:2]
    descriptions = tuple(described(side.attached.method) for side in sides)
    return {"method": method, "decoder": decoder, "described": descriptions}


def _decoder_default(method: str | Method, site: Site) -> str:
    # The method built here is thrown away and must not advance the caller's random state.
    with preserved_generators():
        if isinstance(method, str) and build(method, dim=site.dim, num_heads=site.heads, max_length=8).causal:
            return method
    return CAUSAL


def _side(
    site: Site,
    method: str | Method,
    options: dict[str, Any],
    warm_start: WarmStart | None,
    cross: Cross | None,
    model: str,
) -> _Side:
    """Build the module for one side and check that the side supports it; the model is still unchanged."""
    owner = site.owner
    check_site(site, model)
    rows, first, pad = _own_table(site, model)
    built = _built(method, site, options, 512 if rows is None else len(rows))
    name = method if isinstance(method, str) else described(method)
    injection = check_supported(built, name, site, warm_start, model)
    rotates = needs_rotary_attention(site, injection)
    # A cache that slides has the last keys only, and the model's own attention would get the bias of all.
    slides = injection.bias is not None and site.causal and any(DynamicCache(config=owner.config).is_sliding)
    attached = Attached(
        owner=owner,
        dim=site.dim,
        mean_square=site.mean_square,
        method=built,
        old=None if rows is None or warm_start is None else Rows(rows),
        # With angles, the model's own rotation reads the coordinates: there is no vector to be gated.
        warm=warm_start is not None and injection.rotary is None,
        own_places=_own_places(site, injection, warm_start),
        own_attention=owner.config._attn_implementation if rotates or slides else None,
        has_bias=injection.bias is not None,
        crossing=None if cross is None else CROSS_ATTENTION[cross](dim=site.dim, heads=site.heads),
        first_row=first,
        pad=None if injection.rotary is not None or warm_start is None else pad,
        causal=site.causal,
        hooks_attention=bool(site.attentions),
        alibi=site.alibi,
        patches=site.patches,
    )
    return _Side(site, method, attached.to(precision(owner.dtype)))


def _own_table(site: Site, model: str) -> tuple[Float[Tensor, "N D"] | None, int, int | None]:
    """The rows of the model's own position table from the first token's on; that row's number; and the
    padding id that has a row of its own. No rows if there is no table.
    """
    if site.patches is not None:
        part: Any = site.owner.get_submodule(site.patches.path)
        return part.position_embeddings.detach()[0], 0, None
    if not site.tables:
        return None, 0, None
    table = site.tables[0].module
    first = first_row(site.owner, table)
    if first < 0:
        raise InputError(
            f"{model} does not read its position table {site.tables[0].path} row by row; take one of "
            f"{SUPPORTED}."
        )
    return _rows(table).detach()[first:], first, getattr(table, "padding_idx", None)


def _rows(table: nn.Module) -> Float[Tensor, "N D"]:
    rows = rows_of(table)
    assert rows is not None
    return rows


def _built(method: str | Method, site: Site, options: dict[str, Any], length: int) -> Method:
    if isinstance(method, Method):
        if options:
            raise InputError(
                f"options {', '.join(options)} don't apply to a Method, which is built already; remove them."
            )
        return method
    if unknown := sorted(set(options) - OPTIONS):
        raise InputError(f"attach has no option {', '.join(unknown)}; take {', '.join(sorted(OPTIONS))}.")
    sizes = {"max_length": length} | ({} if site.patches is None else {"shape": site.patches.grid}) | options
    built = build(method, dim=site.dim, num_heads=site.heads, **sizes)
    parts, encoding = ["scale"] if built.scale is not None else [], built.encoding
    if for_pretrained(built).encoding is not encoding:
        parts.append("rotation" if any(isinstance(part, Rotary) for part in encoding.modules()) else "bias")
    if parts:
        logger.info(
            "%s is attached without its %s: a pretrained model keeps its own.", method, " and ".join(parts)
        )
    return built


def _own_places(site: Site, injection: Injection, warm_start: WarmStart | None) -> str | None:
    """Which places the model's own rotation or distance bias reads (`Attached.own_places`)."""
    if injection.rotary is not None and site.rotates:
        return "coordinates"
    if not (site.rotates or site.relatives or site.alibi):
        return None
    return "zero" if warm_start is None else "running"


def _insert(side: _Side, arguments: dict[str, Any], whole: nn.Module) -> tuple[float, float]:
    """Put one side's modules in place, check them, and return `difference` and `relative`."""
    site, attached = side.site, side.attached
    owner, model = site.owner, type(whole).__name__
    before = _probe_states(site)
    _replace(site)
    attached.frozen_before = not any(weight.requires_grad for weight in owner.parameters())
    enter_classes(whole, owner, class_with_method)
    attached.arguments = arguments
    owner.vnait = attached.to(owner.device).train(owner.training)
    if attached.own_attention is not None:
        owner.set_attn_implementation(ROTARY)
    for part in owner.modules():  # a model made around this one initializes what has no such mark
        part._is_hf_initialized = True
    check_no_other_position(leftover_of(owner), site, model)
    _check_takes_effect(owner, side.name, model)
    change = (_probe_states(site) - before).float()
    difference = float(change.abs().max())
    relative = float(change.square().mean().sqrt() / before.float().square().mean().sqrt().clamp(min=1e-30))
    check_exact(relative, before.dtype, arguments["warm_start"], model)
    logger.info(
        "%s is attached to %s in place of %s, warm start %s: states differ by at most %.2g (relative %.2g).",
        side.name,
        site.path or model,
        ", ".join(site.replaced),
        arguments["warm_start"],
        difference,
        relative,
    )
    return difference, relative


def _replace(site: Site) -> None:
    """Silence the model's own positions, or have them read the method's places."""
    for table in (*site.tables, *site.turning):
        if rows_of(table.module) is not None:
            table.replace(SilencedTable(table.module))
    for rotary in site.rotaries:
        rotary.replace(DifferentiableRotary(rotary.module))
    for attention in site.attentions:
        attention.module.register_forward_pre_hook(pre_attention, with_kwargs=True)
        if parent := parent_of(attention.module):
            give_parent(attention.module, parent)
    for attention in site.cross_attentions:
        attention.module.register_forward_pre_hook(pre_cross_attention, with_kwargs=True)
    if site.patches is not None:
        part: Any = site.owner.get_submodule(site.patches.path)
        table_of_patches = part.position_embeddings
        give_parent(part, WithoutPosition, learned=table_of_patches.requires_grad)
        table_of_patches.requires_grad_(False)


def _check_takes_effect(owner: PreTrainedModel, name: str, model: str) -> None:
    """The attention uses the method's bias or angles; some ignore them without an error."""
    attached: Attached = owner.vnait
    if not (attached.has_bias or attached.own_attention):
        return
    read = probe(owner, 1, 4)
    with disabled(owner):
        without = last_states(owner, read)
    with _moved(attached.method.encoding), torch.no_grad():  # a learned bias starts at zero
        with_method = last_states(owner, read)
        inputs: Any = with_positions(owner, (), {owner.main_input_name: read})
    shared = inputs.get(ATTENTION_INPUTS)
    bias = inputs.get("position_bias") if shared is None else shared.bias
    slots = [slot for slot in (bias, inputs.get(ROTARY)) if slot is not None]
    if torch.equal(with_method, without) and any(bool(slot.abs().max() > 0) for slot in slots):
        raise not_accepted(name, "bias" if attached.has_bias else "rotation", model)


@contextmanager
def _moved(part: nn.Module) -> Iterator[None]:
    """A part with other numbers in its weights, which come back."""
    before = [weight.detach().clone() for weight in part.parameters()]
    with torch.no_grad():
        for weight in part.parameters():
            weight.add_(torch.arange(weight.numel(), device=weight.device).cos().reshape(weight.shape))
    try:
        yield
    finally:
        with torch.no_grad():
            for weight, old in zip(part.parameters(), before, strict=True):
                weight.copy_(old)


def _remove(model: nn.Module, owners: list[PreTrainedModel]) -> None:
    """Undo `_insert`, however far it came."""
    leave_classes(model)
    for owner in owners:
        weights = (weight for name, weight in owner.named_parameters() if not is_attached(name))
        frozen_before = hasattr(owner, "vnait") and owner.vnait.frozen_before
        learned = frozen_before or any(weight.requires_grad for weight in weights)
        remove_hooks(owner, pre_attention, pre_cross_attention)
        for path, module in list(owner.named_modules()):
            if isinstance(module, SilencedTable | DifferentiableRotary):
                parent, _, key = path.rpartition(".")
                setattr(owner.get_submodule(parent), key, module.original(learned))
        if hasattr(owner, "vnait"):
            if owner.vnait.own_attention is not None:
                owner.set_attn_implementation(owner.vnait.own_attention)
            del owner.vnait


def _probe_states(site: Site) -> Float[Tensor, "N D"]:
    """Hidden states of two random images, or of the real tokens of two random texts, one of them padded to
    double its length.

    The texts fit into the model's own table.
    """
    if site.patches is not None:
        return last_states(site.owner, probe(site.owner, 2, 0)).flatten(0, 1)
    lengths = [len(_rows(table.module)) for table in site.tables]
    limits = [length // 2 + 1 for length in lengths if length < 256]
    if site.turning or site.rotaries:  # a dynamic rotation keeps the frequencies of its longest text
        limits += [getattr(site.owner.config, "max_position_embeddings", None) or 128]
        limits += [length for part in site.rotaries if (length := original_length(part.module))]
    ids = probe_ids(site.owner, 2, min([128, *limits]))
    mask = torch.ones_like(ids)
    mask[1, ids.shape[1] // 2 + 1 :] = 0
    return last_states(site.owner, ids, attention_mask=mask)[mask.bool()]
