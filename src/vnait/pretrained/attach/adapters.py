"""Attach again what was saved: an adapter to its base, or what is in a saved model's folder to that model."""

import hashlib
import json
import logging
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file
from torch import nn

from vnait.positions.method import Method
from vnait.pretrained.attach.attached import Attached
from vnait.pretrained.attach.attaching import Attachment, attach, detach
from vnait.pretrained.attach.saving import FORMAT, SETTINGS, WEIGHTS, attached_owners, base_of
from vnait.pretrained.locate import owners_of
from vnait.shared import schemas
from vnait.shared.errors import InputError, as_input_error
from vnait.shared.quiet import logger_at


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
    base, saved = base_of(owners_of(model)), settings["base"]
    if saved is None:
        raise InputError(
            f"{folder} is a whole model; load it with AutoModel.from_pretrained or another Auto class."
        )
    if any(base[key] != saved[key] for key in ("class", "sha256")):
        raise InputError(
            f"{folder} is the adapter of {_in_words(saved)}, and this is {_in_words(base)}; load that base, "
            "in the same precision."
        )
    own = _method("method", method, settings, folder), _method("decoder", decoder, settings, folder)
    return _attach(model, own, settings, weights, folder)


def attach_from(model: nn.Module, folder: Path) -> Attachment:
    """Attach what `write_attached` wrote into this model's folder."""
    settings = _settings(folder)
    names = settings["method"], settings["decoder"]
    return _attach(model, names, settings, _weights(folder, settings), folder)


def _attach(
    model: nn.Module,
    methods: tuple[str | Method | None, str | Method | None],
    settings: dict[str, Any],
    weights: dict[str, torch.Tensor],
    folder: Path,
) -> Attachment:
    # What `attach` reports is of the weights that the method starts with, and not of the saved ones.
    quiet = logger_at("vnait", logging.WARNING)
    with quiet, as_input_error((ValueError, TypeError), f"{folder} can't be attached: "):
        attachment = attach(
            model,
            methods[0] or "vnait",
            decoder=methods[1],
            cross=settings["cross"],
            warm_start=settings["warm_start"],
            **settings["options"],
        )
    try:
        owners = attached_owners(model)
        scales = settings.get("scale", {path: owner.vnait.scale for path, owner in owners.items()})
        # Another class may have saved it: in a BertForMaskedLM the path is "bert", in a BertModel "".
        for (path, scale), owner in zip(scales.items(), owners.values(), strict=True):
            _load_weights(owner.vnait, f"{path}.vnait.".removeprefix("."), weights)
            # As it was in `attach`: the vectors of a base trained since may round to another power of two.
            owner.vnait.scale = scale
    except (RuntimeError, ValueError) as error:
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


def _load_weights(attached: Attached, prefix: str, weights: dict[str, torch.Tensor]) -> None:
    state = {name.removeprefix(prefix): weight for name, weight in weights.items() if name.startswith(prefix)}
    attached.load_state_dict(state)


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
    if not isinstance(settings, dict) or settings.get("format") != FORMAT:
        raise InputError(f"{path} is not of format {FORMAT}, which this vnait reads; save the adapter again.")
    with as_input_error(ValueError, f"{path} is damaged: ", "; save the adapter again."):
        schemas.check(schemas.Adapter, settings)
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
