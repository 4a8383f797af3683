"""Save what is attached: apart from its base, in a folder of two files, or inside a saved model's folder.

A mark in the model's configuration makes `from_pretrained` refuse a folder saved with a method inside.
"""

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save_file
from torch import Tensor, nn
from transformers import PreTrainedConfig, PreTrainedModel

from vnait.pretrained.attach.attached import Attached, attached_to
from vnait.pretrained.locate import owners_of
from vnait.shared.errors import InputError
from vnait.shared.files import atomic_folder, check_replaceable

FORMAT = 4  # of a saved adapter
WEIGHTS, SETTINGS = "vnait.safetensors", "vnait.json"
MODEL_TYPE, OWN_TYPE = "vnait-attached", "vnait_model_type"  # in the config.json of an attached model
ATTACHED_MARK = {
    "attached_by": "vnait",
    "why": "a positional method is in this model, and without vnait from_pretrained can't put it there",
    "how_to_load": "import vnait, then AutoModel.from_pretrained or another Auto class; or save it apart: "
    "vnait.pretrained.save_adapter and save_base, then load the base and load_adapter. A folder without "
    "vnait.json is of a model around the one that the method was attached to: attach to the whole model",
}


def attached_owners(model: nn.Module) -> dict[str, PreTrainedModel]:
    """Path -> module with an attached method, the encoder first; `InputError` if there is none."""
    parts = {path: part for path, part in model.named_modules() if attached_to(part) is not None}
    owners = {path: part for path, part in parts.items() if isinstance(part.vnait, Attached)}
    if parts and not owners:
        raise InputError(
            f"the method of {type(model).__name__} is inside peft's modules_to_save; call merge_and_unload() "
            "first, or save with peft."
        )
    if not owners:
        raise InputError(
            f"{type(model).__name__} has no method attached; call vnait.attach(model, ...) first."
        )
    return dict(sorted(owners.items(), key=lambda item: item[1].vnait.causal))


def save_adapter(model: nn.Module, folder: str | Path) -> None:
    """Write vnait.safetensors, the attached weights, and vnait.json, the arguments of `attach` and the base.

    The base is described by its name, its class and the SHA-256 of its present weights without heads; the
    adapter fits no other. If the base was trained too, save it with `save_base`.
    """
    check_replaceable(folder, (WEIGHTS, SETTINGS), "an adapter")
    owners = attached_owners(model)
    with atomic_folder(folder) as draft:
        _write(draft, {**_settings(owners), "base": base_of(owners)}, model.state_dict())


def save_base(model: PreTrainedModel, folder: str | Path) -> None:
    """Write the model without what is attached, for `from_pretrained`; the model itself is unchanged.

    To restore a model, load its base and then the adapter of `save_adapter`.
    """
    weights = {name: tensor for name, tensor in model.state_dict().items() if not _is_attached(name)}
    configs = [model.config, *(owner.config for owner in owners_of(model).values())]
    unmarked = [config for config in configs if unmark(config)]
    try:
        model.save_pretrained(folder, state_dict=weights)
    finally:
        for config in unmarked:
            mark(config)


def attached_settings(model: PreTrainedModel) -> dict[str, Any]:
    """What the Auto classes need to attach the method again; `InputError` if it has no name."""
    settings = _settings(attached_owners(model))
    names = (settings["method"], settings["decoder"])[: len(settings["described"])]
    for name, words in zip(names, settings["described"], strict=True):
        if name is None:
            raise InputError(
                f"a Method of your own ({words}) is in {type(model).__name__}, and from_pretrained can't "
                "build it; save with vnait.pretrained.save_adapter and save_base, and load with load_adapter."
            )
    return settings


def write_attached(folder: str | Path, settings: dict[str, Any], weights: Mapping[str, Tensor]) -> None:
    """Write an adapter into the folder of the model that has it, with a model type for `vnait` to load."""
    _write(Path(folder), {**settings, "base": None}, weights)
    write_type(folder)


def write_type(folder: str | Path) -> None:
    """Give the saved model a type for `vnait` to load.

    Without `vnait`, the Auto classes don't know the type, and all others refuse the mark.
    """
    path = Path(folder) / "config.json"
    config = json.loads(path.read_text(encoding="utf-8"))
    config |= {"model_type": MODEL_TYPE, OWN_TYPE: config["model_type"]}
    path.write_text(json.dumps(config, indent=2, sort_keys=True) + "\n", encoding="utf-8")


def _settings(owners: dict[str, PreTrainedModel]) -> dict[str, Any]:
    arguments = next(iter(owners.values())).vnait.arguments
    if len(owners) < len(arguments["described"]):
        parts = " and ".join(type(part).__name__ for part in owners.values())
        raise InputError(
            f"{parts} is one side of a model whose other side got a method by the same call; save the whole."
        )
    scale = {path: owner.vnait.scale for path, owner in owners.items()}
    return {"format": FORMAT, **arguments, "scale": scale}


def _write(folder: Path, settings: dict[str, Any], weights: Mapping[str, Tensor]) -> None:
    attached = {name: weight for name, weight in weights.items() if _is_attached(name)}
    save_file(
        {name: weight.detach().cpu().contiguous() for name, weight in attached.items()}, folder / WEIGHTS
    )
    checksum = hashlib.sha256((folder / WEIGHTS).read_bytes()).hexdigest()
    text = json.dumps({**settings, "weights_sha256": checksum}, indent=2) + "\n"
    (folder / SETTINGS).write_text(text, encoding="utf-8")


def _is_attached(name: str) -> bool:
    return "vnait" in name.split(".")


def base_of(owners: dict[str, PreTrainedModel]) -> dict[str, str]:
    """Name, class and checksum, which an adapter is for."""
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


def mark(config: PreTrainedConfig) -> None:
    """Make `from_pretrained` refuse what is saved from now on."""
    config.quantization_config = ATTACHED_MARK


def unmark(config: PreTrainedConfig) -> bool:
    """Remove the mark; return whether there was one."""
    was = marked(config)
    if was:
        del config.quantization_config
    return was


def marked(config: PreTrainedConfig) -> bool:
    """Whether the mark is there."""
    found = getattr(config, "quantization_config", None)
    return isinstance(found, dict) and found.get("attached_by") == ATTACHED_MARK["attached_by"]
