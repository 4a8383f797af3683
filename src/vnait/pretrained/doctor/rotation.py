"""Rules of rotations: they are as declared, and half precision keeps their phases, and ALiBi's distances."""

import inspect
import math
from collections.abc import Iterator
from typing import Any

import torch

from vnait.pretrained.doctor.rule import Evidence, Severity, require, rule
from vnait.pretrained.doctor.subject import Subject
from vnait.pretrained.doctor.trial import difference
from vnait.pretrained.layers import original_length
from vnait.pretrained.locate import accepts
from vnait.shared.errors import plural

LENGTH = 8192
ITSELF = "none is needed: the module itself"
ANGLES = 1e-4  # of cosines and sines; both sides round their angles alike
BROKEN = 0.1  # of a cosine; rounding it to bfloat16 is 0.004


def phase_error(model: Any, path: str, length: int, cast: bool, autocast: bool, **others: Any) -> float:
    """Largest error of a rotation's cosines at the first `length` positions, in bfloat16, beside float32."""
    from copy import deepcopy  # here, since the function is shown as a script

    rotary, places = deepcopy(model.get_submodule(path)).cpu(), torch.arange(length)[None]
    exact = rotary(torch.ones(1), places, **others)
    rotary = rotary.bfloat16() if cast else rotary
    with torch.autocast("cpu", torch.bfloat16, enabled=autocast):
        rounded = rotary(torch.ones(1, dtype=torch.bfloat16), places, **others)
    exact, rounded = (part[0] if isinstance(part, tuple) else part.real for part in (exact, rounded))
    return float((exact - rounded).abs().max() / exact.abs().max())


def neighbours_merged(model: Any, path: str, heads: int, length: int, dtype: torch.dtype) -> int:
    """How many of the first `length` places have the ALiBi bias of the place before."""
    import sys  # here, since the function is shown as a script

    part = model.get_submodule(path)
    holder = part if hasattr(part, "build_alibi_tensor") else sys.modules[type(part).__module__]
    bias = holder.build_alibi_tensor(torch.ones(1, length, dtype=torch.long), heads, dtype)
    return int((bias[0, 0].diff() == 0).sum())


def after_rescaling(model: Any, ids: torch.Tensor, **more: Any) -> float:
    """How much outputs change if rope_parameters of the loaded model ask for positions eight times denser."""
    config, before = model.config.get_text_config(), model(input_ids=ids, **more)[0]
    declared, linear = config.rope_parameters, {"rope_type": "linear", "factor": 8.0}
    config.rope_parameters = {
        **declared,
        **({name: {**kind, **linear} for name, kind in declared.items() if isinstance(kind, dict)} or linear),
    }
    try:
        return difference(before, model(input_ids=ids, **more)[0])
    finally:
        config.rope_parameters = declared


def not_declared(model: Any, path: str, name: str, around: str) -> float:
    """How far frequencies and scale of a rotation are from those that the part `around` it declares."""
    rotary = model.get_submodule(path)
    fresh = type(rotary)(config=model.get_submodule(around).config.get_text_config())
    names = [
        name.replace("inv_freq", part) for part in ("inv_freq", "original_inv_freq", "attention_scaling")
    ]
    pairs = [
        [torch.as_tensor(getattr(module, part)).cpu().double() for module in (fresh, rotary)]
        for part in names
        if hasattr(fresh, part)
    ]
    return max(difference(*pair) if pair[0].shape == pair[1].shape else float("inf") for pair in pairs)


def not_of_the_base(model: Any, path: str, name: str, base: float) -> float:
    """How far frequencies are from base^(-k / K), k = 0, ..., K - 1, relative to each."""
    rates = getattr(model.get_submodule(path), name).double().cpu()
    count = len(rates)
    return float((rates * base ** (torch.arange(count) / count).double() - 1).abs().max())


def not_turned(model: Any, path: str, name: str, places: torch.Tensor, **others: Any) -> float:
    """How far a rotation is from the cosines and sines of places times its frequencies, times its scale."""
    rotary = model.get_submodule(path)
    output = rotary(torch.ones(1, device=places.device), places, **others)
    output = torch.complex(*output).cpu() if isinstance(output, tuple) else output.cpu()
    angles = places[..., None].cpu().float() * getattr(rotary, name).cpu().float()
    turns = torch.exp(1j * angles)
    ways = (turns, torch.cat((turns, turns), -1), turns.repeat_interleave(2, -1))
    parameters = getattr(getattr(rotary, "config", None), "rope_parameters", None) or {}
    scale = getattr(rotary, name.replace("inv_freq", "attention_scaling"), 1.0)
    scales = (scale, parameters.get("short_mscale", scale))  # PhiMoE's is the second
    errors = [(output - s * x).abs().max() for x in ways if x.shape[-1] == output.shape[-1] for s in scales]
    return float(min(errors, default=float("inf")))


def not_sines(model: Any, path: str, less: int, paired: bool) -> float:
    """How far a table is from sines and cosines, in halves or `paired`, of places times 10000^(-k / (K -
    `less`)); rows of zeros are padding's.
    """
    module, _, name = path.rpartition(".")
    table = getattr(model.get_submodule(module), name).detach().double().cpu()
    count = table.shape[1] // 2
    angles = torch.arange(len(table))[:, None] * 1e4 ** (-torch.arange(count) / (count - less)).double()
    both = torch.stack((angles.sin(), angles.cos()), 2)
    sines = (both if paired else both.transpose(1, 2)).flatten(1)
    return float((table - sines)[table.any(1)].abs().max())


@rule("HALF01", "rotation cast to bfloat16", Severity.TRAP)
def cast(subject: Subject) -> Evidence | None:
    """A cast of the model to bfloat16 rounds the frequencies, and phases far from the start are wrong.

    A phase is broken where a cosine is off by more than 0.1; rounding it to bfloat16 costs 0.004. The rule
    tries the rotation alone, at the first 8,192 positions. See
    https://github.com/huggingface/transformers/pull/29285.

    Advice: load with from_pretrained(..., dtype=torch.bfloat16), which leaves the frequencies in float32,
    instead of model.to(torch.bfloat16).
    """
    return _phases(subject, cast=True, autocast=False)


@rule("HALF02", "rotation under autocast", Severity.BUG)
def under_autocast(subject: Subject) -> Evidence | None:
    """Under autocast the angles are computed in bfloat16, and phases far from the start are wrong.

    The rule works as HALF01, on the module as it is, under `torch.autocast`.

    Advice: compute angles in float32, inside torch.autocast(enabled=False).
    """
    return _phases(subject, cast=False, autocast=True)


@rule("HALF03", "rotation of a model in bfloat16", Severity.BUG)
def of_half(subject: Subject) -> Evidence | None:
    """With states in bfloat16, angles are computed in bfloat16, though the frequencies are in float32.

    The rule works as HALF01, on the module as it is, with an input in bfloat16. See
    https://github.com/huggingface/candle/pull/3520.

    Advice: compute angles in float32, and round only their cosines and sines.
    """
    return _phases(subject, cast=False, autocast=False)


@rule("HALF04", "ALiBi in bfloat16", Severity.LIMIT)
def alibi(subject: Subject) -> Evidence | None:
    """A bias of distances in bfloat16 is the same for neighbours far from the start.

    The rule counts positions that have the bias of the position before them. It is known for BLOOM, and for
    Falcon, which rounds its bias in every precision.

    Advice: run longer texts in float32, or cut them here if the bias is rounded in every precision.
    """
    sites = [site for site in subject.sites if site.alibi or getattr(site.owner.config, "alibi", False)]
    require(sites, "it has no ALiBi that can be called")
    more = {"path": sites[0].path, "heads": sites[0].heads, "length": LENGTH}
    for dtype, where in ((torch.float32, "in every precision"), (torch.bfloat16, "in bfloat16")):
        trial = subject.trial(neighbours_merged, "", part=subject.model, dtype=dtype, **more)
        if trial.size:
            length = trial.least("length", LENGTH)
            measured = f"{trial.size:.0f} of {LENGTH} positions have the bias of the position before, {where}"
            return trial.at(f"{length} tokens", length=length).evidence(measured, size=trial.size)
    return None


@rule("ROPE01", "scaling after loading", Severity.TRAP)
def scaling_after_loading(subject: Subject) -> Evidence | None:
    """A change of config.rope_parameters after loading does nothing, and raises nothing.

    The rule tries a linear scaling by 8. transformers computes the frequencies once, when the model is built.
    See https://github.com/MakazhanAlpamys/Soup/issues/793.

    Advice: pass rope_parameters to from_pretrained, or change the folder's config.json, before it is loaded.
    """
    parameters = getattr(subject.body.config.get_text_config(), "rope_parameters", None)
    require(isinstance(parameters, dict), "it has no rope_parameters")
    require(any(site.rotaries for site in subject.sites), "it has no rotation")
    trial = subject.trial(after_rescaling, "6 tokens", ids=subject.text(6), **subject.more)
    return None if trial.size > 0 else trial.evidence("outputs move by 0 after a factor of 8 was set")


@rule("ROPE02", "frequencies not as declared", Severity.BUG)
def not_as_declared(subject: Subject) -> Evidence | None:
    """The frequencies or the scale of a rotation are not those of the model's rope_parameters.

    The rule compares them with those of a new module of the same configuration, and without a scaling also
    with base^(-k / K). It finds a cast to bfloat16, a scaling that was dropped, another number of
    frequencies, and a buffer that loading left blank, as in
    https://github.com/macwiatrak/Bacformer/issues/33.

    Advice: load the model again with the rope_parameters that it was trained with.
    """
    for path, name, _ in subject.rotations():
        arguments = {"part": subject.model, "path": path, "name": name}
        around = _around(subject.model, path)
        trial = subject.trial(not_declared, ITSELF, **arguments, around=around)
        if trial.size == math.inf:
            return trial.evidence(_counts(subject, path, name, around))
        if trial.size > 1e-5:
            return trial.evidence(
                f"frequencies or scale of {path} are off by {trial.size:.2g} times the largest one"
            )
        base = _base(subject.model.get_submodule(around).config.get_text_config(), name)
        if base is not None:
            trial = subject.trial(not_of_the_base, ITSELF, **arguments, base=base)
            if trial.size > 1e-4:
                return trial.evidence(
                    f"frequencies of {path} are off by {trial.size:.2g} of those of the base {base:g}"
                )
    return None


@rule("ROPE04", "angles not as declared", Severity.BUG)
def angles_not_as_declared(subject: Subject) -> Evidence | None:
    """A rotation gives other cosines and sines than those of its positions, frequencies and scale.

    The rule compares its forward with (cos, sin)(p inv_freq) attention_scaling, in every type of layer, at
    the positions 0, 1, ..., 257 and 2^k, 2^k + 1 up to the declared length. For a dynamic or longrope
    rotation these end at the original length. In GPT-J and CodeGen it compares the tables of sines. It finds
    a scale that is applied twice or left out, another base, and positions that are doubled or rounded.

    Advice: take transformers' own rotation: (cos, sin)(p inv_freq), times attention_scaling.
    """
    if tables := list(_tables(subject)):
        plain = {"part": subject.model, "less": 0, "paired": False}
        trials = [subject.trial(not_sines, ITSELF, path=path, **plain) for path in tables]
        off = [trial for trial in trials if trial.size > ANGLES]
        what = f"the table of {len(off)} of {plural(len(trials), 'layer')} is off by"
        return off[0].evidence(f"{what} {off[0].size:.2g}") if off else None
    for path, name, others in subject.rotations():
        module = subject.model.get_submodule(path)
        require(_takes_places(module), "its rotation takes no position_ids")
        places = _places(original_length(module) or subject.declared or LENGTH).to(subject.model.device)
        arguments = {"path": path, "name": name, **others}
        trial = subject.trial(not_turned, "", part=subject.model, places=places, **arguments)
        if trial.size > ANGLES:
            singly = (trial.at(places=place[None]) for place in places.T)
            wrong = next(single for single in singly if single.size > ANGLES)
            place = int(wrong.arguments["places"])
            return wrong.at(f"position {place}").evidence(
                f"cosines or sines of {path} are off by up to {trial.size:.2g}", size=trial.size
            )
    return None


def _around(model: Any, path: str) -> str:
    """The path of the innermost model around a rotation; its own if that is configured otherwise."""
    parts, kind = path.split("."), type(model.get_submodule(path).config)
    for length in reversed(range(len(parts))):
        outer = ".".join(parts[:length])
        config: Any = getattr(model.get_submodule(outer), "config", None)
        if hasattr(config, "get_text_config"):
            return outer if type(config.get_text_config()) is kind else path
    return path


def _takes_places(rotary: Any) -> bool:
    """Whether its forward takes positions, by name or as one of any arguments."""
    kinds = {parameter.kind for parameter in inspect.signature(rotary.forward).parameters.values()}
    return accepts(rotary, "position_ids") or inspect.Parameter.VAR_POSITIONAL in kinds


def _tables(subject: Subject) -> Iterator[str]:
    """Paths of tables of sines and cosines by which attention rotates, as GPT-J's."""
    for side, owner in subject.owners.items():
        for path, _ in owner.named_buffers():
            if path.endswith(".embed_positions"):
                yield f"{side}.{path}".removeprefix(".")


def _places(length: int) -> torch.Tensor:
    """(1, N): 0, 1, ..., 257, and 2^k, 2^k + 1 up to a length."""
    near = set(range(min(258, length)))
    powers = {2**power + more for power in range(8, length.bit_length()) for more in (0, 1)}
    return torch.tensor([sorted(place for place in near | powers | {length - 1} if place < length)])


def _counts(subject: Subject, path: str, name: str, around: str) -> str:
    """How many frequencies there are, and are declared."""
    rotary: Any = subject.model.get_submodule(path)
    declared: Any = subject.model.get_submodule(around)
    fresh = type(rotary)(config=declared.config.get_text_config())
    counts = [getattr(module, name).numel() for module in (rotary, fresh)]
    return f"{path} has {counts[0]} frequencies, and {counts[1]} are declared"


def _base(config: Any, name: str) -> float | None:
    """The base of frequencies that are not scaled; None if they are, or it is not declared."""
    parameters = getattr(config, "rope_parameters", None) or {}
    layer = name.removesuffix("inv_freq").rstrip("_")
    parameters = parameters.get(layer, parameters) if layer else parameters
    plain = parameters.get("rope_type") == "default"
    return float(parameters["rope_theta"]) if plain and "rope_theta" in parameters else None


def _phases(subject: Subject, **more: bool) -> Evidence | None:
    """The first rotation whose phases are wrong, at the first position where they are."""
    for path, _, others in subject.rotations():
        module = subject.model.get_submodule(path)
        longest = min(LENGTH, original_length(module) or LENGTH)
        arguments = {"length": longest, "path": path, **more, **others}
        trial = subject.trial(phase_error, "", part=subject.model, **arguments)
        if trial.size > BROKEN:
            length = trial.least("length", longest, limit=BROKEN)
            measured = f"cosines of {path} are off by up to {trial.size:.2g} within {longest} positions"
            return trial.at(f"position {length - 1}", length=length).evidence(measured, size=trial.size)
    return None
