"""`attach` and `detach`: another positional method inside a pretrained model, and the model as it was."""

from __future__ import annotations

import logging
from dataclasses import dataclass
from typing import Any, Literal

import torch
from jaxtyping import Float
from torch import Tensor, nn
from transformers import PreTrainedModel

from vnait.attached.auditing import leftover
from vnait.attached.finding import SUPPORTED, Site, asked, find, probe_ids, states
from vnait.attached.leaves import Silenced, Turned, can_turn
from vnait.attached.old import Rows, Waves, first_row
from vnait.attached.telling import Attached, tell
from vnait.encodings import Rotary
from vnait.errors import InputError
from vnait.injection import Injection
from vnait.method import Method, described
from vnait.methods import build

logger = logging.getLogger("vnait")

Start = Literal["exact", "fit"]
CLEAN = 1e-4  # of the states' largest number, what permuting may change when nothing tells position


@dataclass(frozen=True, kw_only=True)
class Attachment:
    """What `attach` did.

    method      by name, or in words
    owner       the path of the module that it was attached to, "" for the model itself
    replaced    paths of the model's own sources of position that it speaks for now
    warm_start  "exact", "fit" or None
    difference  the largest absolute difference that attaching made to the last hidden states of two random texts of up to 128
                tokens; `relative` is their root mean square difference over the states' own
    """

    method: str
    owner: str
    replaced: tuple[str, ...]
    warm_start: Start | None
    difference: float
    relative: float


def attach(
    model: nn.Module, method: str | Method = "vnait", *, warm_start: Start | None = "exact", **options: Any
) -> Attachment:
    """Put a positional method into a pretrained model, in place of its own: x = e + old(p) + gate * (method(e) - e).

    method      a name in `vnait.METHODS`, or a `Method`; a causal model takes causal ones alone ("vnait-causal")
    warm_start  "exact"  the model's outputs stay what they were. Its position table becomes the method's (its rotation stays), read at
                         the method's running place p, which starts at the index; the gate starts at 0. Learned afterwards: the
                         table, the places, the gate, and through it the method; the model's own weights as you choose
                "fit"    as exact, with the fewest cosine waves that give the table to 1% of its root mean square, instead of it
                None     the method alone, x = method(e), from its random start: a model to train, not one to use
    options     as of `vnait.build`: mean_length, shape, periods, max_length

    A method built by name comes without its scale (the log length's): a pretrained model keeps the loudness of its scores. What a model
    can't carry is refused by name. Texts may be longer than the model's table: past its end, p stays at its last row.

    The method counts the tokens of `attention_mask`; padding may be on either side. With a cache of keys and values, what it has told
    is what it tells without one. `detach` gives the model back bit for bit. Attach before peft's `get_peft_model`.

    >>> from transformers import BertConfig, BertModel
    >>> small = BertConfig(vocab_size=20, hidden_size=8, num_hidden_layers=1, num_attention_heads=2, intermediate_size=8)
    >>> bert = BertModel(small).eval()
    >>> attach(bert, "vnait").difference < 1e-5
    True
    """
    if warm_start not in ("exact", "fit", None):
        raise InputError(f"warm_start={warm_start!r} is not known; take 'exact', 'fit' or None.")
    _check_free(model)
    site = find(model)
    _check_site(site, model)
    table = site.tables[0].module if site.tables else None
    first = 0 if table is None else first_row(site.owner, table)  # type: ignore[arg-type]
    if first < 0:
        raise InputError(
            f"{type(model).__name__} does not read its position table {site.tables[0].path} row by row; take one of {SUPPORTED}."
        )
    rows = None if table is None else table.weight.detach()[first:]  # type: ignore[operator]
    built = _built(method, site, options, 512 if rows is None else len(rows))
    told = _check_carried(built, method, site, warm_start, type(model).__name__)
    attached = Attached(
        method=built,
        old=None if rows is None or warm_start is None else (Rows if warm_start == "exact" else Waves)(rows),
        warm=warm_start is not None and told.turn is None,
        turns=_turns(site, told, warm_start),
        owner=site.owner,
        first=first,
        causal=site.causal,
        biased=told.bias is not None,
        recipe={
            "method": method if isinstance(method, str) else None,
            "described": described(built),
            "warm_start": warm_start,
            "options": options,
        },
    )
    return _put_in(model, site, attached, _name(method), warm_start)


def detach(model: nn.Module) -> None:
    """Take the attached method out: the model's state dict and outputs are what they were, bit for bit.

    What was trained in the model's own weights meanwhile stays in them.
    """
    owner = attached_owner(model)
    for key in [key for key, hook in owner._forward_pre_hooks.items() if hook is tell]:
        del owner._forward_pre_hooks[key]
        owner._forward_pre_hooks_with_kwargs.pop(key, None)
    for path, module in list(owner.named_modules()):
        if isinstance(module, Silenced | Turned):
            parent, _, key = path.rpartition(".")
            setattr(owner.get_submodule(parent), key, module.restored())
    del owner.vnait


def attached_owner(model: nn.Module) -> PreTrainedModel:
    """The module that a method is attached to, or an error."""
    for part in model.modules():
        if isinstance(getattr(part, "vnait", None), Attached):
            return part
    raise InputError(f"{type(model).__name__} has no method attached; call vnait.attach(model, ...) first.")


def _put_in(model: nn.Module, site: Site, attached: Attached, name: str, warm_start: Start | None) -> Attachment:
    """Put everything into place, and take it out again where the model turns out not to be one for it."""
    owner, kind = site.owner, type(model).__name__
    before = _probed(site)
    for place in site.tables:
        place.put(Silenced(place.module))  # type: ignore[arg-type]
    for place in site.rotaries:
        place.put(Turned(place.module))
    owner.vnait = attached.to(owner.get_input_embeddings().weight.device).train(owner.training)
    owner.register_forward_pre_hook(tell, with_kwargs=True)
    try:
        _check_clean(owner, kind, site)
        _check_bias_arrives(owner, name, kind)
        attachment = _measured(site, name, warm_start, before, _probed(site))
        _check_exact(attachment, before, kind)
    except BaseException:
        detach(model)
        raise
    logger.info(
        "%s is attached to %s for %s, warm start %s: the states differ by at most %.2g (relative %.2g).",
        name,
        attachment.owner or kind,
        ", ".join(attachment.replaced),
        warm_start,
        attachment.difference,
        attachment.relative,
    )
    return attachment


def _probed(site: Site) -> Float[Tensor, "N D"]:
    """The states of the real tokens of two random texts, one of them half as long and padded."""
    ids = probe_ids(site.owner, 2, _probe_length(site))
    real = torch.ones_like(ids)
    real[1, ids.shape[1] // 2 + 1 :] = 0
    return states(site.owner, ids, attention_mask=real)[real.bool()]


def _measured(site: Site, name: str, warm_start: Start | None, before: Tensor, after: Tensor) -> Attachment:
    difference = (after - before).float()
    return Attachment(
        method=name,
        owner=site.path,
        replaced=tuple(place.path for place in (*site.tables, *site.rotaries)),
        warm_start=warm_start,
        difference=float(difference.abs().max()),
        relative=float(difference.square().mean().sqrt() / before.float().square().mean().sqrt().clamp(min=1e-30)),
    )


def _check_exact(attachment: Attachment, before: Tensor, model: str) -> None:
    if attachment.warm_start == "exact" and attachment.relative > torch.finfo(before.dtype).eps ** 0.5:
        raise InputError(
            f"{model} differs by {attachment.relative:.2g} of its states after an exact start: it draws numbers in evaluation, or takes "
            "its positions in a way that was not found; give warm_start='fit' or None if you mean that."
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
        logger.info("%s is attached without its scale: a pretrained model keeps the loudness of its scores.", method)
        built.scale = None
    return built


def _check_free(model: nn.Module) -> None:
    parts = list(model.modules())
    if any(isinstance(part, Attached) for part in parts):
        raise InputError(
            f"{type(model).__name__} has a method attached already; a model has exactly one: call vnait.detach(model) first."
        )
    if any(type(part).__module__.split(".")[0] == "peft" for part in parts):
        raise InputError(
            f"{type(model).__name__} holds peft's layers already, and peft would not save what is attached now; attach first, then call "
            'get_peft_model with modules_to_save=["vnait"].'
        )


def _check_site(site: Site, model: nn.Module) -> None:
    name = type(model).__name__
    if site.others:
        raise InputError(
            f"{name} also tells position inside its layers ({', '.join(site.others[:3])}), which can't be replaced; take one of "
            f"{SUPPORTED}."
        )
    if len(site.tables) + len(site.rotaries) != 1 or not all(can_turn(place.module) for place in site.rotaries):
        found = ", ".join(place.path for place in (*site.tables, *site.rotaries)) or "nothing"
        raise InputError(
            f"{name} can't be attached to: one position table or one rotation by position_ids was expected, found {found}; take one of "
            f"{SUPPORTED}."
        )


def _check_carried(built: Method, method: str | Method, site: Site, warm_start: Start | None, model: str) -> Injection:
    """What the method tells, or a sentence that names what this model can't carry."""
    name = _name(method)
    if site.causal and not built.causal:
        raise InputError(
            f"{name} tells a token what follows it, and {model} reads from left to right; take a causal method, such as vnait-causal."
        )
    told = _slots(built, site, name, model)
    if told.turn is not None:
        _check_turn(built, told, name, site, model)
    elif told.scale is not None:
        raise InputError(f"{name} tells a scale, which {model} has no place for; build the Method with scale=None.")
    if warm_start is None:
        return told
    if told.bias is not None:
        raise InputError(
            f"{name} tells a bias, which replaces {model}'s positions and can't start from them; give warm_start=None."
        )
    if warm_start == "fit" and not site.tables:
        raise InputError(f"{model} has a rotation and no table to fit; give warm_start='exact'.")
    if site.rotaries and told.added is None and told.turn is None:
        raise InputError(f"{name} tells {model} nothing; give warm_start=None for a model without positions.")
    return told


def _check_turn(built: Method, told: Injection, name: str, site: Site, model: str) -> None:
    if not site.rotaries:
        raise InputError(
            f"{name} tells a turn, and {model} has no rotation of queries and keys; take a method that adds."
        )
    plain = isinstance(built.encoding, Rotary) and built.encoding.scaling is None
    if not plain or told.added is not None or told.bias is not None:
        raise InputError(
            f"{name} turns in a way of its own, and {model} keeps its own base and scaling; take rope, lpi or randomized-rope, whose "
            "coordinates it can turn by."
        )
    if told.scale is not None:
        raise InputError(f"{name} tells a scale, which {model} has no place for; build the Method with scale=None.")


def _slots(built: Method, site: Site, name: str, model: str) -> Injection:
    """The injection for a text of three tokens of this model's width."""
    weight = next(built.parameters(), torch.zeros(()))
    vectors = torch.zeros(1, 3, site.dim, device=weight.device, dtype=weight.dtype)
    mask = torch.ones(1, 3, dtype=torch.bool, device=weight.device)
    with asked(built):
        try:
            told = built(vectors, mask)
        except (RuntimeError, IndexError) as error:
            raise InputError(
                f"{name} does not fit {model}: build it for dim={site.dim} and num_heads={site.heads}."
            ) from error
    injection: Injection = told.injection.dense()
    if injection.bias is not None and injection.bias.shape[1] not in (1, site.heads):
        raise InputError(f"{name} has a bias for {injection.bias.shape[1]} heads, and {model} has {site.heads}.")
    return injection


def _turns(site: Site, told: Injection, warm_start: Start | None) -> str | None:
    if not site.rotaries:
        return None
    if told.turn is not None:
        return "coordinates"
    return "nothing" if warm_start is None else "running"


def _check_clean(owner: PreTrainedModel, model: str, site: Site) -> None:
    left = leftover(owner)
    if left > CLEAN:
        raise InputError(
            f"{model} tells position in a way that was not found: without {', '.join(p.path for p in (*site.tables, *site.rotaries))} "
            f"another order of the tokens still changes its states by {left:.2g} of their size; take one of {SUPPORTED}."
        )


def _check_bias_arrives(owner: PreTrainedModel, name: str, model: str) -> None:
    """A bias that the attention drops would go wrong without a word: see that one changes something."""
    if not owner.vnait.biased:
        return
    ids = probe_ids(owner, 1, 4)
    with_it = states(owner, ids)
    owner.vnait.silent = True
    try:
        without = states(owner, ids)
    finally:
        owner.vnait.silent = False
    if torch.equal(with_it, without) and _bias_of(owner).abs().max() > 0:
        raise InputError(f"{name} tells a bias, and the attention of {model} does not take one (position_bias).")


def _bias_of(owner: PreTrainedModel) -> Float[Tensor, "B H T T"]:
    mask = torch.ones(1, 4, dtype=torch.bool, device=owner.device)
    return owner.vnait(owner.get_input_embeddings()(probe_ids(owner, 1, 4)), mask).bias
