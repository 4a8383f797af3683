"""Adapters: what was attached, without the base model, in a folder of two files."""

import hashlib
import json
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from torch import nn
from transformers import PreTrainedModel

from vnait import schemas
from vnait.errors import InputError, as_input_error
from vnait.files import check_replaceable, whole_folder
from vnait.method import Method
from vnait.methods import RENAMED
from vnait.pretrained.attaching import Attachment, attach, attached_owners, detach
from vnait.pretrained.checks import mark, unmark
from vnait.pretrained.hooks import Attached
from vnait.pretrained.locate import owners_of

FORMAT, BEFORE = 3, 2  # of a saved adapter
WEIGHTS, SETTINGS = "vnait.safetensors", "vnait.json"


def save_adapter(model: nn.Module, folder: str | Path) -> None:
    """Write vnait.safetensors, the attached weights, and vnait.json, the arguments of `attach` and the base.

    The base is described by its name, its class and the SHA-256 of its present weights without heads; the
    adapter fits no other. If the base was trained too, save it with `save_base`.
    """
    check_replaceable(folder, (WEIGHTS, SETTINGS), "an adapter")
    owners = attached_owners(model)
    arguments = next(iter(owners.values())).vnait.arguments
    settings = {"format": FORMAT, "base": _base(owners), "weights_sha256": "", **arguments}
    settings["scale"] = {path: owner.vnait.scale for path, owner in owners.items()}
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
    """Write the model without what is attached, for `from_pretrained`; the model itself is unchanged.

    To restore a model, load its base and then the adapter of `save_adapter`.
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
    """Attach what `save_adapter` wrote to the same base. On an error the model is unchanged.

    Args:
        method, decoder: the `Method` again, if it was attached as an object and not by name

    Raises:
        InputError: another base, or a damaged folder.
    """
    folder = Path(folder)
    settings = _settings(folder)
    weights = _weights(folder, settings)
    base, saved = _base(owners_of(model)), settings["base"]
    if any(base[key] != saved[key] for key in ("class", "sha256")):
        raise InputError(
            f"{folder} is the adapter of {_in_words(saved)}, and this is {_in_words(base)}; load that base, "
            "in the same precision."
        )
    with as_input_error((ValueError, TypeError), f"{folder} can't be attached: "):
        attachment = attach(
            model,
            _method("method", method, settings, folder) or "vnait",
            decoder=_method("decoder", decoder, settings, folder),
            cross=settings["cross"],
            warm_start=settings["warm_start"],
            **settings["options"],
        )
    try:
        for path, owner in attached_owners(model).items():
            _load_weights(owner.vnait, f"{path}.vnait.".removeprefix("."), weights)
            # As it was in `attach`: the vectors of a base trained since may round to another power of two.
            owner.vnait.scale = settings.get("scale", {}).get(path, owner.vnait.scale)
    except RuntimeError as error:
        detach(model)
        raise InputError(
            f"{folder} does not fit: its weights aren't those of {' and '.join(attachment.method)}; save it "
            "again."
        ) from error
    return attachment


def _method(side: str, own: Method | None, settings: dict[str, Any], folder: Path) -> str | Method | None:
    """The saved name of one side's method, or the `Method` passed for it; None if the side does not exist."""
    name: str | None = settings[side]
    index = 0 if side == "method" else 1
    if name is not None and own is not None:
        raise InputError(f"{folder} is the adapter of the method {name}; leave {side}= out.")
    if name is None and own is None and index < len(settings["described"]):
        words = settings["described"][index]
        raise InputError(f"{folder} has the weights of a Method of your own ({words}); give it as {side}=.")
    return name if own is None else own


def _base(owners: dict[str, PreTrainedModel]) -> dict[str, str]:
    parts = [owner for _, owner in sorted(owners.items())]
    return {
        "name": parts[0].config._name_or_path,
        "class": " and ".join(type(part).__name__ for part in parts),
        "sha256": _checksum(parts),
    }


def _checksum(owners: list[PreTrainedModel]) -> str:
    """SHA-256 of the models' own weights, by name, type, shape and bytes, without what is attached."""
    digest = hashlib.sha256()
    for owner in owners:
        for name, tensor in sorted(owner.state_dict().items()):
            if not name.startswith("vnait."):
                digest.update(f"{name} {tensor.dtype} {tuple(tensor.shape)}\n".encode())
                flat = tensor.detach().cpu().contiguous().reshape(-1)
                digest.update(flat.view(torch.uint8).numpy().tobytes())
    return digest.hexdigest()


def _load_weights(attached: Attached, prefix: str, weights: dict[str, torch.Tensor]) -> None:
    own = {name.removeprefix(prefix): weight for name, weight in weights.items() if name.startswith(prefix)}
    waves = own.get("old.weight")
    if waves is not None and attached.old is not None:
        # How many waves fit a table depends on rounding; take as many as were saved.
        attached.old.weight = nn.Parameter(waves.to(attached.old.weight))
    attached.load_state_dict(own)


def _in_words(base: dict[str, str]) -> str:
    return f"{base['class']} {base['name'] or '(without a name)'} with weights {base['sha256'][:12]}"


def _settings(folder: Path) -> dict[str, Any]:
    path = folder / SETTINGS
    if not path.is_file():
        raise InputError(
            f"{folder} is not an adapter: it has no {SETTINGS}; give a folder that save_adapter wrote."
        )
    with as_input_error((ValueError, RecursionError), f"{path} is damaged: ", "; save the adapter again."):
        settings = json.loads(path.read_text(encoding="utf-8"))
    if not isinstance(settings, dict) or settings.get("format") not in (BEFORE, FORMAT):
        raise InputError(
            f"{path} is not of format {BEFORE} or {FORMAT}, which this vnait reads; save the adapter again."
        )
    with as_input_error(ValueError, f"{path} is damaged: ", "; save the adapter again."):
        schemas.check(schemas.Adapter, settings)
    if settings["format"] == BEFORE:
        settings |= {side: RENAMED.get(settings[side], settings[side]) for side in ("method", "decoder")}
    return settings


def _weights(folder: Path, settings: dict[str, Any]) -> dict[str, torch.Tensor]:
    path = folder / WEIGHTS
    if not path.is_file():
        raise InputError(f"{folder} is damaged: it has no {WEIGHTS}; save the adapter again.")
    if hashlib.sha256(path.read_bytes()).hexdigest() != settings["weights_sha256"]:
        raise InputError(
            f"{path} is damaged: its checksum is not the one in {SETTINGS}; save the adapter again."
        )
    with as_input_error(SafetensorError, f"{path} is damaged: ", "; save the adapter again."):
        return load_file(path)
