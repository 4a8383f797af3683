"""How one run of a model reads texts past its limit: other places, other frequencies, other scores. The model
itself does not change.
"""

import math
from collections.abc import Callable
from copy import deepcopy
from dataclasses import dataclass, field, replace
from typing import Any, Literal

import torch
from jaxtyping import Float
from torch import Tensor, nn
from transformers import AttentionInterface, AttentionMaskInterface
from transformers.masking_utils import ALL_MASK_ATTENTION_FUNCTIONS
from transformers.modeling_utils import ALL_ATTENTION_FUNCTIONS

from vnait.positions.attention import rotate
from vnait.positions.cache import Mask
from vnait.pretrained.layers import ThreadValue
from vnait.pretrained.table import between, interpolated
from vnait.shared.errors import InputError

SourceKind = Literal["table", "rotation", "other"]  # of position; "other": a bias of distances, or none
LONG = "vnait_long"  # name of `long_attention` among transformers' attention functions
FULL, SLIDING = "full_attention", "sliding_attention"  # types of layers: only the first reads the whole text
QUERIES = 512  # whose scores are in memory at once


@dataclass(frozen=True, kw_only=True)
class Stretch:
    """What one run changes; texts in it have up to `factor` times `limit` tokens.

    places   (B, T), from 0; real numbers between two rows of a table, or for a rotation
    first    row of the position table for place 0
    rotation "ntk" or "yarn": other frequencies
    scale    multiplies the attention scores
    near     from this distance on, places count in groups of `group` (self-extension); 0: none do
    turns    by type of layer, the rotation's angle per place, (K/2,), as its module last gave it
    """

    places: Float[Tensor, "B T"]
    limit: int
    factor: int
    first: int = 0
    rotation: str | None = None
    scale: float = 1.0
    near: int = 0
    group: int = 1
    turns: dict[str, Tensor] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class Reading:
    """A way to read texts past the limit, in a line; the sources of position that it is for; its stretch of
    whole places (B, T) and their mask, or None for windows; whether it needs `long_attention`.
    """

    meaning: str
    sources: tuple[SourceKind, ...]
    stretch: Callable[[Stretch, Mask], Stretch] | None
    attention: bool = False


def compressed(stretch: Stretch, mask: Mask) -> Stretch:
    """Places that end at the limit's last one."""
    return replace(stretch, places=interpolated(stretch.places, mask, stretch.limit - 1))


def _grouped(stretch: Stretch, mask: Mask) -> Stretch:
    return replace(stretch, places=stretch.places // stretch.factor)


def _self_extended(stretch: Stretch, mask: Mask) -> Stretch:
    """Half of the limit stays near; the group is the smallest with which distances stay within the limit."""
    near = max(stretch.limit // 2, 1)
    longest = stretch.factor * stretch.limit
    return replace(stretch, near=near, group=math.ceil((longest - near) / (stretch.limit - near)))


def _scaled(stretch: Stretch, mask: Mask) -> Stretch:
    scale = math.log(stretch.factor * stretch.limit) / math.log(stretch.limit)
    return replace(stretch, scale=scale)


READINGS = {
    "windows": Reading(
        meaning="windows of the limit, each alone; special tokens get the mean over the windows",
        sources=("table", "rotation", "other"),
        stretch=None,
    ),
    "unchanged": Reading(
        meaning="positions go on past those that were trained",
        sources=("rotation", "other"),
        stretch=lambda stretch, mask: stretch,
    ),
    "interpolated": Reading(
        meaning="places compressed to end at the limit (position interpolation, arXiv 2306.15595)",
        sources=("table", "rotation"),
        stretch=compressed,
    ),
    "grouped": Reading(
        meaning="neighbours share a place, so that places end at the limit (arXiv 2404.12096)",
        sources=("table", "rotation"),
        stretch=_grouped,
    ),
    "self-extended": Reading(
        meaning="near places as they are, far ones in groups (SelfExtend, arXiv 2401.01325)",
        sources=("rotation",),
        stretch=_self_extended,
        attention=True,
    ),
    "ntk": Reading(
        meaning="a larger base of the rotation (NTK-aware scaling, arXiv 2309.00071)",
        sources=("rotation",),
        stretch=lambda stretch, mask: replace(stretch, rotation="ntk"),
    ),
    "yarn": Reading(
        meaning="slow frequencies slower, fast ones as before (YaRN, arXiv 2309.00071)",
        sources=("rotation",),
        stretch=lambda stretch, mask: replace(stretch, rotation="yarn"),
    ),
    "log-n": Reading(
        meaning="scores times log(n) / log(limit) (arXiv 2202.12172); places interpolated in a table",
        sources=("table", "rotation", "other"),
        stretch=_scaled,
        attention=True,
    ),
}


current = ThreadValue()  # the `Stretch` of this thread's run


def read_table(table: nn.Module, args: Any, output: Tensor) -> Tensor | None:
    """Forward hook of a position table: its rows at real places, linear between two of them."""
    stretch = current.value
    if stretch is None:
        return None
    rows: Any = table.weight
    return between(rows[stretch.first : stretch.first + stretch.limit], stretch.places)


def read_rotation(rotary: Any, args: Any, kwargs: dict[str, Any], output: Any) -> Any:
    """Forward hook of a rotation: with other frequencies, or none, and the angles for `long_attention`."""
    stretch = current.value
    if stretch is None:
        return None
    kind = kwargs.get("layer_type", args[2] if len(args) > 2 else FULL)
    if stretch.near:
        name = f"{kind}_inv_freq" if hasattr(rotary, f"{kind}_inv_freq") else "inv_freq"
        stretch.turns[kind] = getattr(rotary, name)
    if stretch.rotation is None or kind != FULL:
        return None
    scaled = rescaled(rotary, stretch.rotation, stretch.factor, stretch.limit)
    return type(rotary).forward(scaled, *args, **kwargs)


def rescaled(rotary: Any, rotation: str, factor: int, limit: int) -> nn.Module:
    """A rotation for texts of `factor` times `limit` tokens.

    ntk   base * factor^(d / (d - 2)), d channels: the slowest pair turns `factor` times slower, the fastest
          as before (NTK-aware scaling, arXiv 2306.15595, section on related work; arXiv 2309.00071, 3.1)
    yarn  NTK by parts, and scores times (0.1 log(factor) + 1)^2 (YaRN, arXiv 2309.00071), as in transformers
    """
    config = deepcopy(rotary.config)
    parameters = config.rope_parameters
    declared = parameters.get(FULL, parameters)
    if declared.get("rope_type", "default") != "default":
        raise InputError(
            f"the model's rotation is scaled already ({declared['rope_type']}), and {rotation} scales one "
            "that is not; take another reading."
        )
    if rotation == "yarn":
        changed = {"rope_type": "yarn", "factor": float(factor), "original_max_position_embeddings": limit}
    else:
        turns = getattr(rotary, f"{FULL}_inv_freq", None)
        channels = 2 * len(rotary.inv_freq if turns is None else turns)
        changed = {"rope_theta": declared["rope_theta"] * factor ** (channels / max(channels - 2, 1))}
    new = {**declared, **changed}
    config.rope_parameters = {**parameters, FULL: new} if FULL in parameters else new
    scaled: nn.Module = type(rotary)(config=config)
    return scaled.to(next(rotary.buffers()).device)


def long_attention(
    module: Any,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attention_mask: Tensor | None,
    scaling: float | None = None,
    **kwargs: Any,
) -> tuple[Tensor, Tensor | None]:
    """transformers' sdpa attention; within a stretch, scores are scaled, or places far away are grouped."""
    stretch, sliding = current.value, kwargs.get("sliding_window") is not None
    if stretch is not None and stretch.near:
        kind = SLIDING if sliding and SLIDING in stretch.turns else FULL
        turns = stretch.turns[kind]
        if not sliding:
            scale = query.shape[-1] ** -0.5 if scaling is None else scaling
            causal = kwargs.get("is_causal")  # of the call or the configuration, before the module's own
            causal = getattr(module, "is_causal", False) if causal is None else causal
            causal = causal and attention_mask is None
            return self_extended(module, query, key, value, attention_mask, stretch, scale, causal), None
        angles = stretch.places[..., None] * turns
        query, key = turned(query, angles), turned(key, angles)
    elif stretch is not None and not sliding:
        scaling = stretch.scale * (query.shape[-1] ** -0.5 if scaling is None else scaling)
    output: tuple[Tensor, Tensor | None] = ALL_ATTENTION_FUNCTIONS["sdpa"](
        module, query, key, value, attention_mask, scaling=scaling, **kwargs
    )
    return output


AttentionInterface.register(LONG, long_attention)
AttentionMaskInterface.register(LONG, ALL_MASK_ATTENTION_FUNCTIONS["sdpa"])


def turned(x: Float[Tensor, "B H T K"], angles: Float[Tensor, "B T R"]) -> Float[Tensor, "B H T K"]:
    """The first 2 R channels rotated, as in a model that rotates a part of them."""
    width = 2 * angles.shape[-1]
    if width == x.shape[-1]:
        return rotate(x, angles)
    return torch.cat([rotate(x[..., :width], angles), x[..., width:]], -1)


def self_extended(
    module: Any,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    mask: Tensor | None,
    stretch: Stretch,
    scale: float,
    causal: bool = False,
) -> Float[Tensor, "B T H K"]:
    """Attention in which key j is at distance i - j from query i if |i - j| < w, else, for a key before it,
    at i // G - j // G + w - w // G, and for a key behind it at the negative of that with i and j exchanged;
    w is `near`, G `group`.

    Queries and keys come without rotation. Source: SelfExtend, arXiv 2401.01325.
    """
    groups, dtype = getattr(module, "num_key_value_groups", 1), value.dtype
    key, value = key.repeat_interleave(groups, 1), value.repeat_interleave(groups, 1)
    if torch.finfo(dtype).bits < 32 and query.device.type == "cpu":  # where it takes many times as long
        query, key, value = query.float(), key.float(), value.float()
    places, turns = stretch.places, stretch.turns[FULL]
    grouped = places // stretch.group
    shift = stretch.near - stretch.near // stretch.group
    near, far = (turned(key, at[..., None] * turns) for at in (places, grouped))
    parts = []
    for start in range(0, query.shape[2], QUERIES):
        rows = slice(start, start + QUERIES)
        end = start + query[:, :, rows].shape[2] if causal else key.shape[2]
        first = max(start - stretch.near + 1, 0) if causal else 0  # keys before it are far from all rows
        at = [places[:, rows], grouped[:, rows] + shift, *([] if causal else [grouped[:, rows] - shift])]
        turned_queries = [turned(query[:, :, rows], place[..., None] * turns) for place in at]
        keys = (near[:, :, first:end], *(far[:, :, :end] for _ in at[1:]))
        close, before, *behind = (q @ k.mT for q, k in zip(turned_queries, keys, strict=True))
        distance = (places[:, rows, None] - places[:, None, first:end])[:, None]
        distant = torch.where(distance > 0, before, behind[0]) if behind else before[..., first:]
        scores = scale * torch.where(distance.abs() < stretch.near, close, distant)
        if causal:
            scores = scores.masked_fill(distance < 0, -torch.inf)
            scores = torch.cat((scale * before[..., :first], scores), -1)
        elif mask is not None:
            allowed = mask[..., rows, :] if mask.shape[-2] > 1 else mask
            low = torch.finfo(scores.dtype).min
            scores = scores.masked_fill(~allowed, low) if allowed.dtype == torch.bool else scores + allowed
        parts.append(scores.softmax(-1, dtype=torch.float32).to(value.dtype) @ value[:, :, :end])
    return torch.cat(parts, 2).to(dtype).transpose(1, 2).contiguous()
