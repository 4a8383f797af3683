"""Rules of rotations in attention: each layer rotates queries and keys as the model's rotation does."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from typing import Any
from unittest.mock import patch

import torch
from torch import Tensor

from vnait.pretrained.doctor.rule import Evidence, Severity, require, rule
from vnait.pretrained.doctor.subject import Subject
from vnait.pretrained.doctor.trial import Trial
from vnait.shared.errors import plural

SDPA = "torch.nn.functional.scaled_dot_product_attention"
# Their layers of full attention have no rotation, in a model that has windows.
GLOBAL_WITHOUT = ("cohere2", "cohere2_moe", "exaone4", "exaone4_5_text", "exaone_moe", "afmoe")
REPEATS = 6  # of one token: all places attend to equal values, so each layer gets equal states everywhere


def rotated_otherwise(
    model: Any, path: str, ids: Tensor, layers: list[int], pairs: list[slice], turn: slice, **others: Any
) -> float:
    """How far queries and keys of one token repeated are from those of its first place, rotated by `path`."""
    from unittest.mock import patch  # here, since the function is shown as a script

    model.config._attn_implementation = "sdpa"
    attend = torch.nn.functional.scaled_dot_product_attention
    with patch("torch.nn.functional.scaled_dot_product_attention", wraps=attend) as calls:
        model(input_ids=ids)
    heads = [part[0].float() for layer in layers for part in calls.call_args_list[layer].args[:2]]
    states = torch.cat([torch.complex(*(x[..., pair] for pair in pairs)) / x.abs().max() for x in heads])
    places = torch.arange(ids.shape[1], device=ids.device)[None]
    output = model.get_submodule(path)(heads[0][None], places, **others)
    turns = (torch.complex(*output) if isinstance(output, tuple) else output).repeat(1, 1, 2)[..., turn]
    return float((states * turns[:, :1] - states[:, :1] * turns).abs().max())


def turned(model: Any, ids: Tensor, layer: int) -> float:
    """How far queries and keys of one token repeated are from those of its first place."""
    from unittest.mock import patch  # here, since the function is shown as a script

    model.config._attn_implementation = "sdpa"
    attend = torch.nn.functional.scaled_dot_product_attention
    with patch("torch.nn.functional.scaled_dot_product_attention", wraps=attend) as calls:
        model(input_ids=ids)
    heads = [part[0].float() for part in calls.call_args_list[layer].args[:2]]
    return max(float((x - x[:, :1]).abs().max() / x.abs().max()) for x in heads)


@rule("ROPE03", "rotation not as applied", Severity.BUG)
def not_as_applied(subject: Subject) -> Evidence | None:
    """Queries or keys of a layer are not rotated by the angles of the model's rotation.

    The rule tries one token, six times: all positions attend to equal values, so that each layer gets equal
    states at all positions, and its queries and keys are those of position 0, rotated. It finds a layer that
    does not rotate, rotates twice or with other frequencies, or leaves out the keys. It also finds a layer
    that rotates though `no_rope_layers`, or the full attention of Cohere 2, EXAONE 4 or AFMoE, declares no
    rotation. Types of layers that never rotate, and the idle rotation beside Falcon's ALiBi, are right. The
    rule is not tried behind a recurrence, or where attention is not PyTorch's.

    Advice: compare these layers' attention with transformers' own: its code, or a patch of it, is wrong.
    """
    require(not subject.alibi, "it has ALiBi, beside which its rotation is idle by design")
    ids = subject.text(1).expand(1, REPEATS)
    ways = []
    for path, name, others in subject.rotations():
        half = subject.model.get_submodule(path).get_buffer(name).numel()
        for layout in _layouts(half, either_side=_turns_either_way(subject)):
            arguments = {"layers": [], "path": path, "ids": ids, **layout, **others}
            ways.append(
                subject.trial(rotated_otherwise, f"{REPEATS} tokens", part=subject.model, **arguments)
            )
    require(not subject.encodes_and_decodes, "which layers are the decoder's is not known")
    require(not subject.attached, "its rotation is that of an attached method")
    with subject.attending("sdpa"):
        if evidence := _without_rotation(subject, ids):
            return evidence
        for kind, layers in _layers(subject, ids).items():
            fitting = [way for way in ways if kind is None or way.arguments.get("layer_type", kind) == kind]
            if fitting and (evidence := _examined(layers, fitting, subject.tolerance)):
                return evidence
    return None


def _without_rotation(subject: Subject, ids: Tensor) -> Evidence | None:
    """Evidence of layers that rotate, and are declared not to."""
    config = subject.model.config.get_text_config()
    declared = declared_rotations(config)
    layers = [layer for layer, rotates in enumerate(declared) if not rotates]
    calls = _calls(subject, ids) if layers else []
    if len(calls) != len(declared):
        return None
    equal = [layer for layer in layers if _same(calls[layer][2], subject.tolerance)]
    trials = [
        subject.trial(turned, f"{REPEATS} tokens", part=subject.model, ids=ids, layer=layer)
        for layer in equal
    ]
    wrong = [trial for trial in trials if trial.size > subject.tolerance]
    if not wrong:
        return None
    return wrong[0].evidence(
        f"queries or keys of {plural(len(wrong), 'layer')} of {len(layers)} that are declared to have no "
        f"rotation (first {wrong[0].arguments['layer']}, counted from 0) move by {wrong[0].size:.2g}"
    )


def declared_rotations(config: Any) -> list[bool]:
    """Which layers rotate, as far as the configuration declares layers that do not."""
    rotates = getattr(config, "no_rope_layers", None)
    if rotates:
        return [bool(layer) for layer in rotates]  # 1 for those that do
    kinds = getattr(config, "layer_types", None) or []
    if config.model_type in GLOBAL_WITHOUT and getattr(config, "sliding_window", None):
        return [kind != "full_attention" for kind in kinds]
    return [True] * len(kinds)


def _examined(layers: list[int], ways: list[Trial], tolerance: float) -> Evidence | None:
    """Evidence if no way of rotating fits all these layers; by the way that fits most of them."""

    def error(way: Trial, layers: list[int]) -> float:
        return way.at(layers=layers).size

    if any(error(way, layers) <= tolerance for way in ways):
        return None
    wrong = [[layer for layer in layers if error(way, [layer]) > tolerance] for way in ways]
    off, way = min(zip(wrong, ways, strict=True), key=lambda pair: len(pair[0]))
    first = way.at(way.smallest, layers=off[:1])
    return first.evidence(
        f"queries or keys of {plural(len(off), 'layer')} of {len(layers)} (first {off[0]}, "
        f"counted from 0) are off by {first.size:.2g} times the largest one"
    )


def _layers(subject: Subject, ids: Tensor) -> dict[str | None, list[int]]:
    """The layers that should rotate, per type of layer where the configuration has types.

    Left out are layers that get unequal states, as behind a recurrence; those that the configuration leaves
    without a rotation; and types of layers in which nothing is rotated while others are.
    """
    calls = _calls(subject, ids)
    config = subject.model.config.get_text_config()
    rotates, kinds = declared_rotations(config), getattr(config, "layer_types", None) or []
    equal: dict[str | None, list[int]] = defaultdict(list)  # whose values are the same at all places
    for layer, (_, _, value) in enumerate(calls):
        declared = rotates[layer] if len(rotates) == len(calls) else True
        if declared and _same(value, subject.tolerance):
            equal[kinds[layer] if len(kinds) == len(calls) else None].append(layer)
    require(equal, "no layer of PyTorch's attention gets equal states for equal tokens")
    turned = {
        kind: layers
        for kind, layers in equal.items()
        if not all(_same(state, subject.tolerance) for layer in layers for state in calls[layer])
    }
    return turned or equal


def _calls(subject: Subject, ids: Tensor) -> list[list[Tensor]]:
    """Queries, keys and values (H, T, K) of every layer of PyTorch's attention."""
    with patch(SDPA, wraps=torch.nn.functional.scaled_dot_product_attention) as attend:
        subject.call(subject.model, input_ids=ids)
    return [[states[0] for states in call.args[:3]] for call in attend.call_args_list]


def _same(states: Tensor, tolerance: float) -> bool:
    """Whether the states (H, T, K) of all places are those of the first."""
    return bool((states - states[:, :1]).abs().max() <= tolerance * states.abs().max())


def _turns_either_way(subject: Subject) -> bool:
    """Whether a rotation to the other side is no fault: nanochat's, and in code that is not transformers'."""
    config, module = subject.body.config.get_text_config(), type(subject.body).__module__
    return config.model_type == "nanochat" or not module.startswith("transformers.models.")


def _layouts(half: int, *, either_side: bool) -> Iterator[dict[str, Any]]:
    """Which of the first or last components of a head are pairs, and which of the angles are theirs."""
    width = 2 * half
    for pairs in (
        [slice(0, half), slice(half, width)],
        [slice(0, width, 2), slice(1, width, 2)],
        [slice(-width, -half), slice(-half, None)],
        [slice(-width, None, 2), slice(1 - width, None, 2)],
    ):
        for turn in (slice(0, half), slice(0, width, 2)):
            yield {"pairs": pairs, "turn": turn}
            if either_side:
                yield {"pairs": pairs[::-1], "turn": turn}
