"""What a model can't carry, in a sentence each, before and after a method is put into it."""

from __future__ import annotations

from typing import Literal

import torch
from torch import Tensor, nn
from transformers import PreTrainedModel

from vnait.attached.auditing import left_by
from vnait.attached.crossing import CROSSES, Cross
from vnait.attached.finding import SUPPORTED, Site, asked, probe_ids, states
from vnait.attached.leaves import can_turn
from vnait.attached.telling import Attached
from vnait.encodings import Rotary
from vnait.errors import InputError
from vnait.injection import Injection
from vnait.method import Method

Start = Literal["exact", "fit"]
CLEAN = 1e-4  # of the states' largest number, what permuting may change when nothing tells position


def check_free(model: nn.Module) -> None:
    """Nothing is attached, and nothing of peft's stands in the way."""
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


def check_sides(
    sites: tuple[Site, ...], method: str | Method, decoder: str | Method | None, cross: Cross | None, model: str
) -> None:
    """A decoder's method and cross-attention are for models of two sides."""
    if cross is not None and cross not in CROSSES:
        raise InputError(f"cross={cross!r} is not known; take {', '.join(CROSSES)} or None.")
    if len(sites) == 1 and (decoder is not None or cross is not None):
        name = "decoder" if decoder is not None else "cross"
        raise InputError(f"{name}= is for an encoder-decoder, and {model} has one side; leave it out.")
    if isinstance(method, Method) and method is decoder:
        raise InputError(
            f"one Method was given for both sides of {model}, which would share its weights; give decoder=copy.deepcopy(method)."
        )
    if cross is not None and not sites[-1].attentions:
        raise InputError(
            f"{model}'s cross-attention was not found (modules that take key_value_states); give cross=None, or take T5 or BART."
        )


def check_site(site: Site, model: str) -> None:
    """Exactly one source of position, of a kind that can be replaced."""
    if site.others:
        raise InputError(
            f"{model} also tells position inside its layers ({', '.join(site.others[:3])}), which can't be replaced; take one of "
            f"{SUPPORTED}."
        )
    kinds = len(site.tables) + len(site.rotaries) + bool(site.relatives) + site.slopes
    if kinds != 1 or not all(can_turn(place.module) for place in site.rotaries):
        found = ", ".join(site.own) or "nothing"
        raise InputError(
            f"{model} can't be attached to: one position table, one rotation by position_ids or one bias of distances was expected, "
            f"found {found}; take one of {SUPPORTED}."
        )


def check_carried(built: Method, name: str, site: Site, warm_start: Start | None, model: str) -> Injection:
    """What the method tells, or a sentence that names what this model can't carry."""
    if site.causal and not built.causal:
        raise InputError(
            f"{name} tells a token what follows it, and {model} reads from left to right; take a causal method, such as vnait-causal."
        )
    told = _slots(built, site, name, model)
    if told.turn is not None:
        _check_turn(built, told, name, site, model)
    elif told.scale is not None:
        raise InputError(f"{name} tells a scale, which {model} has no place for; build the Method with scale=None.")
    inside = "a bias" if told.bias is not None else "a turn" if turns_alone(site, told) else None
    if inside and not site.owner._supports_sdpa:
        raise InputError(
            f"{name} tells {inside}, and the attention of {model} does not take one; take a method that adds."
        )
    if warm_start is None:
        return told
    if inside:
        raise InputError(
            f"{name} tells {inside}, which replaces {model}'s positions and can't start from them; give warm_start=None."
        )
    if warm_start == "fit" and not site.tables:
        kind = "a rotation" if site.rotaries else "a bias of distances"
        raise InputError(f"{model} has {kind} and no table to fit; give warm_start='exact'.")
    if not site.tables and told.added is None and told.turn is None:
        raise InputError(f"{name} tells {model} nothing; give warm_start=None for a model without positions.")
    return told


def _check_turn(built: Method, told: Injection, name: str, site: Site, model: str) -> None:
    if turns_alone(site, told):
        _check_width(told, name, site, model)
    else:
        plain = isinstance(built.encoding, Rotary) and built.encoding.scaling is None
        if not plain or told.added is not None or told.bias is not None:
            raise InputError(
                f"{name} turns in a way of its own, and {model} keeps its own base and scaling; take rope or lpi, "
                "whose coordinates it can turn by."
            )
    for what, slot in (("a scale", told.scale), ("a stretch", told.stretch)):
        if slot is not None:
            raise InputError(f"{name} tells {what}, which {model} has no place for; build the Method without it.")


def _check_width(told: Injection, name: str, site: Site, model: str) -> None:
    """Where the words are narrower than the layers, a method built for the words turns heads that are too narrow."""
    config, turn = site.owner.config, told.turn
    assert turn is not None
    own = getattr(config, "d_kv", None) or getattr(config, "head_dim", None) or config.hidden_size // site.heads
    if 2 * turn.shape[-1] != own:
        raise InputError(
            f"{name} turns heads of width {2 * turn.shape[-1]}, and those of {model} are of {own}; give a Method with "
            f"Rotary(width={own})."
        )


def turns_alone(site: Site, told: Injection) -> bool:
    """Whether queries and keys are turned by the method's own angles: the model has no rotation that would."""
    return told.turn is not None and not site.rotaries


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


def check_clean(site: Site, model: str) -> None:
    """Where nothing tells position, another order changes nothing."""
    left = left_by(site.owner)
    if left > max(CLEAN, 4 * torch.finfo(site.owner.dtype).eps):  # half precision rounds by more
        raise InputError(
            f"{model} tells position in a way that was not found: without {', '.join(site.own)} another order of the tokens still "
            f"changes its states by {left:.2g} of their size; take one of {SUPPORTED}."
        )


def check_arrives(owner: PreTrainedModel, name: str, model: str) -> None:
    """A bias or a turn that the attention drops would go wrong without a word: see that one changes something."""
    if not (owner.vnait.biased or owner.vnait.turned):
        return
    ids = probe_ids(owner, 1, 4)
    with_it = states(owner, ids)
    owner.vnait.silent = True
    try:
        without = states(owner, ids)
    finally:
        owner.vnait.silent = False
    if torch.equal(with_it, without) and any(bool(part.abs().max() > 0) for part in _inside(owner)):
        what = "a turn" if owner.vnait.turned else "a bias"
        raise InputError(
            f"{name} tells {what}, and the attention of {model} does not take one; take a method that adds."
        )


@torch.no_grad()
def _inside(owner: PreTrainedModel) -> list[Tensor]:
    mask = torch.ones(1, 4, dtype=torch.bool, device=owner.device)
    given = owner.vnait(owner.get_input_embeddings()(probe_ids(owner, 1, 4)), mask)
    return [part for part in (given.bias, given.turn) if part is not None]


def check_exact(relative: float, dtype: torch.dtype, warm_start: Start | None, model: str) -> None:
    """An exact start is exact."""
    if warm_start == "exact" and relative > torch.finfo(dtype).eps ** 0.5:
        raise InputError(
            f"{model} differs by {relative:.2g} of its states after an exact start: it draws numbers in evaluation, or takes its "
            "positions in a way that was not found; give warm_start='fit' or None if you mean that."
        )
