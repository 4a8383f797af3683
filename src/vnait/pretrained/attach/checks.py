"""Checks before and after `attach` acts: each raises an `InputError` that names what the model can't do."""

import inspect
import math
from typing import Any, Literal

import torch
from torch import nn

from vnait.positions.encodings import Rotary
from vnait.positions.injection import Injection
from vnait.positions.method import Method
from vnait.pretrained.attach.cross_attention import CROSS_ATTENTION, Cross
from vnait.pretrained.layers import rows_of
from vnait.pretrained.locate import FAMILIES, SUPPORTED, Site
from vnait.shared.errors import DoesNotFit, InputError
from vnait.shared.randomness import evaluating

WarmStart = Literal["exact"]
BASE = 10_000.0  # the default of `Rotary`, for whatever base the model has
LEFTOVER = 1e-4  # rounding, over the largest state: what permuting tokens may change without any position


def check_sides(
    sites: tuple[Site, ...],
    method: str | Method,
    decoder: str | Method | None,
    cross: Cross | None,
    model: str,
) -> None:
    """`decoder` and `cross` are for encoder-decoders."""
    if cross is not None and cross not in CROSS_ATTENTION:
        raise InputError(f"cross={cross!r} is not known; take {', '.join(CROSS_ATTENTION)} or None.")
    if len(sites) == 1 and (decoder is not None or cross is not None):
        name = "decoder" if decoder is not None else "cross"
        raise InputError(f"{name}= is for an encoder-decoder, and {model} has one side; leave it out.")
    if isinstance(method, Method) and method is decoder:
        raise InputError(
            f"both sides of {model} got the same Method and would share its weights; give "
            "decoder=copy.deepcopy(method)."
        )
    if cross is not None and not sites[-1].attentions:
        raise InputError(
            f"{model}'s cross-attention was not found (modules that take key_value_states); give "
            "cross=None, or take T5 or BART."
        )


def check_site(site: Site, model: str) -> None:
    """Exactly one source of position, of a kind that can be replaced."""
    family = FAMILIES.get(site.owner.config.model_type)
    if family is not None and family.refused:
        raise InputError(f"{model} can't be attached to: {family.refused}; take one of {SUPPORTED}.")
    if site.inside:
        raise InputError(
            f"{model} also encodes position inside its layers ({', '.join(site.inside[:3])}), which can't be "
            f"replaced; take one of {SUPPORTED}."
        )
    if any(getattr(part, "token_dropout", False) for part in site.owner.modules()):
        raise InputError(
            f"{model} scales its vectors by the ids (token_dropout), which an attached method replaces by "
            "vectors; load it with token_dropout=False, or take another base."
        )
    for table in site.tables:
        words: Any = site.owner.get_input_embeddings()
        rows, width = rows_of(table.module), words.weight.shape[1]
        if rows is not None and rows.shape[1] != width:
            raise InputError(
                f"{model} can't be attached to: its words have {width} numbers, and its position table "
                f"{table.path} has {rows.shape[1]}; take one of {SUPPORTED}."
            )
    kinds = len(site.tables) + len(site.rotaries) + bool(site.relatives) + bool(site.turning)
    kinds += site.alibi + bool(site.patches)
    if kinds != 1 or not all(_can_wrap(part.module) for part in site.rotaries):
        raise InputError(
            f"{model} can't be attached to: one position table, one rotation by position_ids or one bias of "
            f"distances was expected, found {', '.join(site.sources) or 'nothing'}; take one of {SUPPORTED}."
        )


def _can_wrap(rotary: nn.Module) -> bool:
    """Whether it takes `position_ids`, and has no key in the state dict that a wrapper would rename."""
    return "position_ids" in inspect.signature(rotary.forward).parameters and not rotary.state_dict()


def check_supported(
    method: Method, name: str, site: Site, warm_start: WarmStart | None, model: str
) -> Injection:
    """Return the method's injection for this model; raise if the model can't carry one of its slots."""
    if site.causal and not method.causal:
        raise InputError(
            f"{name} lets tokens depend on later ones, and {model} reads from left to right; take a causal "
            "method, such as vnait-causal."
        )
    injection = _injection(method, site, name, model)
    if injection.score_mod is not None:
        raise InputError(
            f"{name} changes the attention scores inside the layers (score_mod), and those of {model} can't "
            "do that; take a method that adds vectors, or train this one from scratch."
        )
    if injection.rotary is not None:
        _check_rotary(method, injection, name, site, model)
    elif injection.scale is not None:
        raise InputError(f"{name} has a scale, which {model} can't apply; build the Method with scale=None.")
    slot = None
    if injection.bias is not None:
        slot = "bias"
    elif needs_rotary_attention(site, injection):
        slot = "rotation"
    if slot and not site.owner._supports_sdpa:
        raise not_accepted(name, slot, model)
    if warm_start is None:
        return injection
    if slot:
        raise InputError(
            f"{name} has a {slot}, which replaces {model}'s positions and can't start from them; give "
            "warm_start=None."
        )
    table = site.tables or site.patches
    if not table and injection.added is None and injection.rotary is None:
        raise InputError(
            f"{name} adds no position to {model}; give warm_start=None for a model without positions."
        )
    return injection


def not_accepted(name: str, slot: str, model: str) -> InputError:
    """The error if the model's attention would ignore a slot of the method."""
    return InputError(
        f"{name} has a {slot}, and the attention of {model} does not accept one; take a method that adds "
        "vectors."
    )


def _injection(method: Method, site: Site, name: str, model: str) -> Injection:
    """The injection for a text of three tokens, or for the patches of an image, of this model's width."""
    count = 3 if site.patches is None else math.prod(site.patches.grid)
    weight = next(method.parameters(), torch.zeros(()))
    vectors = torch.zeros(1, count, site.dim, device=weight.device, dtype=weight.dtype)
    mask = torch.ones(1, count, dtype=torch.bool, device=weight.device)
    with evaluating(method):
        try:
            injection: Injection = method(vectors, mask).injection.dense()
        except (RuntimeError, IndexError, DoesNotFit) as error:
            raise InputError(
                f"{name} does not fit {model}: build it for dim={site.dim} and num_heads={site.heads}."
            ) from error
        except InputError:
            raise
        except ValueError as error:
            raise InputError(f"{name} can't read {count} tokens as it was built: {error}") from error
    if injection.bias is not None and injection.bias.shape[1] not in (1, site.heads):
        raise InputError(
            f"{name} has a bias for {injection.bias.shape[1]} heads, and {model} has {site.heads}."
        )
    return injection


def _check_rotary(method: Method, injection: Injection, name: str, site: Site, model: str) -> None:
    if needs_rotary_attention(site, injection):
        _check_head_width(injection, name, site, model)
    else:
        part = method.encoding
        plain = isinstance(part, Rotary) and part.scaling is None and part.base in (BASE, *_bases(site))
        if not plain or injection.added is not None or injection.bias is not None:
            raise InputError(
                f"{name} rotates in its own way, and {model} keeps its own base and scaling; take rope "
                "or lpi, whose coordinates it can rotate by."
            )
    for slot in ("scale", "stretch"):
        if getattr(injection, slot) is not None:
            raise InputError(
                f"{name} has a {slot} of its scores, which {model} can't apply beside its own rotation; take "
                "rope or lpi."
            )


def _bases(site: Site) -> set[float]:
    """The bases of the model's own rotations, of every kind of layer."""
    config = site.owner.config.get_text_config()
    parameters = getattr(config, "rope_parameters", None) or {}
    kinds = [parameters, *(kind for kind in parameters.values() if isinstance(kind, dict)), vars(config)]
    return {kind["rope_theta"] for kind in kinds if kind.get("rope_theta")}


def _check_head_width(injection: Injection, name: str, site: Site, model: str) -> None:
    """If words are narrower than layers (ELECTRA), a method for the words has too narrow heads."""
    assert injection.rotary is not None
    config, width = site.owner.config, 2 * injection.rotary.shape[-1]
    declared = getattr(config, "d_kv", None) or getattr(config, "head_dim", None)
    of_heads = declared or config.hidden_size // site.heads
    if width != of_heads:
        raise InputError(
            f"{name} rotates heads of width {width}, and those of {model} have width {of_heads}; give a "
            f"Method with Rotary(width={of_heads})."
        )


def needs_rotary_attention(site: Site, injection: Injection) -> bool:
    """Whether the method has angles, and the model no rotation that could use the coordinates instead."""
    return injection.rotary is not None and not site.rotates


def check_no_other_position(left: float, site: Site, model: str) -> None:
    """With all known sources off, permuting the tokens changes nothing; `left` is `leftover_of` the owner."""
    if left > max(LEFTOVER, 4 * torch.finfo(site.owner.dtype).eps):  # half precision rounds by more
        raise InputError(
            f"{model} encodes position in a way that was not found: without {', '.join(site.sources)} "
            f"another order of the tokens still changes its states by {left:.2g} of their size; take one of "
            f"{SUPPORTED}."
        )


def check_exact(relative: float, dtype: torch.dtype, warm_start: WarmStart | None, model: str) -> None:
    """An exact start changes the states by rounding only."""
    if warm_start == "exact" and relative > torch.finfo(dtype).eps ** 0.5:
        raise InputError(
            f"{model} differs by {relative:.2g} of its states after an exact start: it draws numbers in "
            "evaluation, or encodes position in a way that was not found; give warm_start=None if that is "
            "acceptable."
        )
