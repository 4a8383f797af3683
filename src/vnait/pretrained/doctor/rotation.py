"""Rules of rotations: phases in half precision, and scaling parameters; and of ALiBi in half precision."""

from bisect import bisect_left
from collections.abc import Iterator
from typing import Any

import torch

from vnait.pretrained.doctor.rule import Evidence, NotTried, Severity, rule
from vnait.pretrained.doctor.subject import Measure, Subject, difference

LENGTH = 8192
BROKEN = 0.1  # of a cosine; rounding it to bfloat16 is 0.004
MOVING = ("dynamic", "longrope")  # scalings whose frequencies depend on the length of the text


def phase_error(model: Any, path: str, length: int, cast: bool, autocast: bool, **others: Any) -> float:
    """Largest error of a rotation's cosines at the first `length` positions, in bfloat16, beside float32."""
    from copy import deepcopy  # here, since the function is shown as a script

    rotary, places = deepcopy(model.get_submodule(path)).cpu(), torch.arange(length)[None]
    exact = rotary(torch.ones(1), places, **others)
    rotary = rotary.bfloat16() if cast else rotary
    with torch.autocast("cpu", torch.bfloat16, enabled=autocast):
        found = rotary(torch.ones(1, dtype=torch.bfloat16), places, **others)
    one, other = (part[0] if isinstance(part, tuple) else part.real for part in (exact, found))
    return float((one - other).abs().max() / one.abs().max())


def neighbours_merged(model: Any, path: str, heads: int, length: int) -> int:
    """How many of the first `length` places have the ALiBi bias of the place before, in bfloat16."""
    bias = model.get_submodule(path).build_alibi_tensor(torch.ones(1, length), heads, torch.bfloat16)
    return int((bias[0, 0].diff() == 0).sum())


def after_rescaling(model: Any, ids: torch.Tensor, **more: Any) -> float:
    """How much outputs change if rope_parameters of the loaded model ask for positions eight times denser."""
    config, before = model.config.get_text_config(), model(input_ids=ids, **more)[0]
    kept, linear = config.rope_parameters, {"rope_type": "linear", "factor": 8.0}
    config.rope_parameters = {
        **kept,
        **({name: {**own, **linear} for name, own in kept.items() if isinstance(own, dict)} or linear),
    }
    try:
        return difference(before, model(input_ids=ids, **more)[0])
    finally:
        config.rope_parameters = kept


def not_declared(model: Any, path: str, name: str) -> float:
    """How far frequencies and scale of a rotation are from those that its configuration declares."""
    rotary = model.get_submodule(path)
    fresh = type(rotary)(config=rotary.config)
    names = [
        name.replace("inv_freq", part) for part in ("inv_freq", "original_inv_freq", "attention_scaling")
    ]
    pairs = [
        [torch.as_tensor(getattr(one, part)).cpu().double() for one in (fresh, rotary)]
        for part in names
        if hasattr(fresh, part)
    ]
    return max(difference(*pair) for pair in pairs)


@rule(
    "HALF01",
    "rotation cast to bfloat16",
    Severity.TRAP,
    advice="load with from_pretrained(..., dtype=torch.bfloat16), which leaves the frequencies in float32, "
    "instead of model.to(torch.bfloat16)",
)
def cast(subject: Subject) -> Evidence | None:
    """A cast of the model to bfloat16 rounds the frequencies, and phases far from the start are wrong."""
    return _phases(subject, cast=True, autocast=False)


@rule(
    "HALF02",
    "rotation under autocast",
    Severity.BUG,
    advice="compute angles in float32, inside torch.autocast(enabled=False)",
)
def under_autocast(subject: Subject) -> Evidence | None:
    """Under autocast the angles are computed in bfloat16, and phases far from the start are wrong."""
    return _phases(subject, cast=False, autocast=True)


@rule(
    "HALF03",
    "rotation of a model in bfloat16",
    Severity.BUG,
    advice="compute angles in float32, and round only their cosines and sines",
)
def of_half(subject: Subject) -> Evidence | None:
    """With states in bfloat16, angles are computed in bfloat16, though the frequencies are in float32."""
    return _phases(subject, cast=False, autocast=False)


@rule(
    "HALF04",
    "ALiBi in bfloat16",
    Severity.LIMIT,
    advice="run texts that are longer in float32",
)
def alibi(subject: Subject) -> Evidence | None:
    """A bias of distances in bfloat16 is the same for neighbours far from the start."""
    sites = [site for site in subject.sites if site.alibi]
    if not sites:
        raise NotTried("it has no ALiBi that can be called")
    path, heads = sites[0].path, sites[0].heads
    arguments: dict[str, Any] = {"path": path, "heads": heads}
    if (size := subject.measure(neighbours_merged, part=subject.model, length=LENGTH, **arguments)) == 0:
        return None
    length = _least(subject, neighbours_merged, 0, **arguments)
    return Evidence(
        size=size,
        measured=f"{size:.0f} of {LENGTH} places have the bias of the place before",
        smallest=f"{length} tokens",
        reproduction=subject.script(neighbours_merged, part=subject.model, length=length, **arguments),
        shown=subject.measure(neighbours_merged, part=subject.model, length=length, **arguments),
    )


@rule(
    "ROPE01",
    "scaling after loading",
    Severity.TRAP,
    advice="pass rope_parameters to from_pretrained, or change the folder's config.json, before it is loaded",
)
def scaling_after_loading(subject: Subject) -> Evidence | None:
    """A change of config.rope_parameters after loading does nothing, and raises nothing."""
    if not isinstance(getattr(subject.body.config.get_text_config(), "rope_parameters", None), dict):
        raise NotTried("it has no rope_parameters")
    if not any(site.rotaries for site in subject.sites):
        raise NotTried("it has no rotation")
    arguments = {"ids": subject.text(6), **subject.more}
    size = subject.measure(after_rescaling, **arguments)
    if size > 0:
        return None
    return Evidence(
        size=size,
        measured="outputs move by 0 after a factor of 8 was set",
        smallest="6 tokens",
        reproduction=subject.script(after_rescaling, **arguments),
        shown=size,
    )


@rule(
    "ROPE02",
    "frequencies not as declared",
    Severity.BUG,
    advice="load the model again with the rope_parameters that it was trained with",
)
def not_as_declared(subject: Subject) -> Evidence | None:
    """The frequencies or the scale of a rotation are not those of the model's rope_parameters."""
    found = list(rotations(subject))
    for path, name, _ in found:
        arguments = {"path": path, "name": name}
        size = subject.measure(not_declared, part=subject.model, **arguments)
        if size > 1e-5:
            return Evidence(
                size=size,
                measured=f"frequencies or scale of {path} are off by {size:.2g} times the largest one",
                smallest="none is needed: the module itself",
                reproduction=subject.script(not_declared, part=subject.model, **arguments),
                shown=size,
            )
    return None


def _phases(subject: Subject, **how: bool) -> Evidence | None:
    for path, _, others in rotations(subject):
        module = subject.model.get_submodule(path)
        moving = set(MOVING) & set(_types(module))
        longest = min(LENGTH, int(getattr(module, "original_max_seq_len", LENGTH))) if moving else LENGTH
        arguments = {"path": path, **how, **others}
        size = subject.measure(phase_error, part=subject.model, length=longest, **arguments)
        if size > BROKEN:
            length = _least(subject, phase_error, BROKEN, longest, **arguments)
            return Evidence(
                size=size,
                measured=f"cosines of {path} are off by up to {size:.2g} within {longest} positions",
                smallest=f"position {length - 1}",
                reproduction=subject.script(phase_error, part=subject.model, length=length, **arguments),
                shown=subject.measure(phase_error, part=subject.model, length=length, **arguments),
            )
    return None


def _least(subject: Subject, measure: Measure, limit: float, longest: int = LENGTH, **arguments: Any) -> int:
    """The smallest length whose size is over the limit; sizes never fall with the length."""

    def over(length: int) -> bool:
        return subject.measure(measure, part=subject.model, length=length, **arguments) > limit

    return bisect_left(range(longest), True, lo=2, key=over)


def rotations(subject: Subject) -> Iterator[tuple[str, str, dict[str, Any]]]:
    """Path, buffer of frequencies, and other arguments of every rotation of its own configuration."""
    paths = [f"{site.path}.{part.path}".removeprefix(".") for site in subject.sites for part in site.rotaries]
    if not paths:
        raise NotTried("it has no rotation")
    for path in paths:
        module = subject.model.get_submodule(path)
        for name, _ in module.named_buffers(recurse=False):
            if name.endswith("inv_freq") and "original" not in name:
                layer = name.removesuffix("inv_freq").rstrip("_")
                yield path, name, {"layer_type": layer} if layer else {}


def _types(module: Any) -> list[str]:
    kind = getattr(module, "rope_type", "default")
    return list(kind.values()) if isinstance(kind, dict) else [kind]
