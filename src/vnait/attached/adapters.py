"""Adapters: what was attached, without the model it was attached to, in a folder of two files."""

from __future__ import annotations

import hashlib
import json
from dataclasses import asdict
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from torch import nn
from transformers import PreTrainedModel

from vnait.attached.attaching import Attachment, Called, attach, attached_owners, detach
from vnait.attached.finding import owners_of
from vnait.attached.marking import mark, unmark
from vnait.attached.telling import Attached
from vnait.errors import InputError
from vnait.files import check_replaceable, whole_folder
from vnait.method import Method

FORMAT = 2
WEIGHTS, SETTINGS = "vnait.safetensors", "vnait.json"


def save_adapter(model: nn.Module, folder: str | Path) -> None:
    """Write what was attached to `folder`: vnait.safetensors with its weights, vnait.json with how to attach it, and to what.

    vnait.json holds the base's name, its class and the SHA-256 of its weights as they are now: an adapter belongs to exactly these.
    Where the base was trained along, save it too (`save_base`). Heads aside: the checksum is of the part attached to.
    """
    check_replaceable(folder, (WEIGHTS, SETTINGS), "an adapter")
    owners = attached_owners(model)
    recipe: Called = next(iter(owners.values())).vnait.recipe
    settings = {"format": FORMAT, "base": _base(owners), "weights_sha256": "", **asdict(recipe)}
    settings["scale"] = {path: owner.vnait.loud for path, owner in owners.items()}
    weights = {
        f"{path}.{name}".removeprefix("."): tensor.detach().cpu().contiguous()
        for path, owner in owners.items()
        for name, tensor in owner.vnait.state_dict(prefix="vnait.").items()
    }
    with whole_folder(folder) as draft:
        save_file(weights, draft / WEIGHTS)
        settings["weights_sha256"] = hashlib.sha256((draft / WEIGHTS).read_bytes()).hexdigest()
        (draft / SETTINGS).write_text(json.dumps(settings, indent=2) + "\n", encoding="utf-8")


def save_base(model: PreTrainedModel, folder: str | Path) -> None:
    """Write the model without what was attached, as `from_pretrained` loads it; the model itself keeps its method.

    With `save_adapter` it is the whole model: load the base, then the adapter.
    """
    weights = {name: tensor for name, tensor in model.state_dict().items() if "vnait" not in name.split(".")}
    configs = [model.config, *(owner.config for owner in owners_of(model).values())]
    marked = [config for config in configs if unmark(config)]
    try:
        model.save_pretrained(folder, state_dict=weights)
    finally:
        for config in marked:
            mark(config)


def load_adapter(
    model: nn.Module, folder: str | Path, *, method: Method | None = None, decoder: Method | None = None
) -> Attachment:
    """Attach what `save_adapter` wrote to the same base; another base, or a damaged folder, is refused and changes nothing.

    method, decoder    the `Method` again, where it was attached as one and not by name
    """
    folder = Path(folder)
    settings = _settings(folder)
    weights = _weights(folder, settings)
    owners = owners_of(model)
    _check_base(_base(owners), settings["base"], folder)
    own = {"method": method, "decoder": decoder}
    sides = {name: _method(name, own[name], settings, folder) for name in own}
    told = {name: settings[name] for name in ("cross", "warm_start")}
    attachment = attach(model, sides["method"] or "vnait", decoder=sides["decoder"], **told, **settings["options"])
    try:
        for path, owner in attached_owners(model).items():
            prefix = f"{path}.vnait.".removeprefix(".")
            saved = {name.removeprefix(prefix): w for name, w in weights.items() if name.startswith(prefix)}
            _fit_old(owner.vnait, saved)
            owner.vnait.load_state_dict(saved)
            # Of the vectors when it was attached; those of a base that was trained along may round to another power of two.
            owner.vnait.loud = settings.get("scale", {}).get(path, owner.vnait.loud)
    except RuntimeError as error:
        detach(model)
        raise InputError(
            f"{folder} does not fit: its weights aren't those of {' and '.join(attachment.method)}; save it again."
        ) from error
    return attachment


def _method(name: str, own: Method | None, settings: dict[str, Any], folder: Path) -> str | Method | None:
    """Of one side: what the folder names, or what was given for a Method of one's own; None for a side that is not there."""
    saved: str | None = settings[name]
    place = 0 if name == "method" else 1
    if saved is not None and own is not None:
        raise InputError(f"{folder} holds the method {saved}; leave {name}= out.")
    if saved is None and own is None and place < len(settings["described"]):
        words = settings["described"][place]
        raise InputError(f"{folder} holds the weights of a Method of your own ({words}); give it as {name}=.")
    return saved if own is None else own


def _base(owners: dict[str, PreTrainedModel]) -> dict[str, str]:
    parts = [owner for _, owner in sorted(owners.items())]
    return {
        "name": parts[0].config._name_or_path,
        "class": " and ".join(type(part).__name__ for part in parts),
        "sha256": checksum(*parts),
    }


def checksum(*owners: PreTrainedModel) -> str:
    """SHA-256 of a model's own weights, by name, type, shape and bytes; what is attached to it aside."""
    digest = hashlib.sha256()
    for owner in owners:
        for name, tensor in sorted(owner.state_dict().items()):
            if not name.startswith("vnait."):
                digest.update(f"{name} {tensor.dtype} {tuple(tensor.shape)}\n".encode())
                flat = tensor.detach().cpu().contiguous().reshape(-1)
                digest.update(flat.view(torch.uint8).numpy().tobytes())
    return digest.hexdigest()


def _fit_old(attached: Attached, weights: dict[str, torch.Tensor]) -> None:
    """As many waves as were saved: what fits a table depends on rounding."""
    saved = weights.get("old.weight")
    if saved is not None and attached.old is not None and saved.shape != attached.old.weight.shape:
        attached.old.weight = nn.Parameter(saved.to(attached.old.weight))


def _check_base(found: dict[str, str], base: dict[str, str], folder: Path) -> None:
    if any(found[key] != base[key] for key in ("class", "sha256")):
        raise InputError(
            f"{folder} is the adapter of {_in_words(base)}, and this is {_in_words(found)}; load that base, in the same precision."
        )


def _in_words(base: dict[str, str]) -> str:
    return f"{base['class']} {base['name'] or '(without a name)'} with weights {base['sha256'][:12]}"


def _settings(folder: Path) -> dict[str, Any]:
    path = folder / SETTINGS
    if not path.is_file():
        raise InputError(f"{folder} holds no adapter: it has no {SETTINGS}; give a folder that save_adapter wrote.")
    try:
        settings = json.loads(path.read_text(encoding="utf-8"))
    except ValueError as error:
        raise InputError(f"{path} is damaged: {error}; save the adapter again.") from error
    if not isinstance(settings, dict) or settings.get("format") != FORMAT:
        raise InputError(f"{path} is not of format {FORMAT}, which this vnait reads; save the adapter again.")
    return settings


def _weights(folder: Path, settings: dict[str, Any]) -> dict[str, torch.Tensor]:
    path = folder / WEIGHTS
    if not path.is_file():
        raise InputError(f"{folder} is damaged: it has no {WEIGHTS}; save the adapter again.")
    if hashlib.sha256(path.read_bytes()).hexdigest() != settings["weights_sha256"]:
        raise InputError(f"{path} is damaged: its checksum is not the one in {SETTINGS}; save the adapter again.")
    try:
        return load_file(path)
    except SafetensorError as error:
        raise InputError(f"{path} is damaged: {error}; save the adapter again.") from error
