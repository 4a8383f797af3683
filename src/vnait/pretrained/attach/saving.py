"""Save what is attached, and attach it again: apart from its base, beside a fine-tuned base, or to a model
whose folder has it.
"""

import hashlib
import json
import logging
from collections.abc import Sequence
from pathlib import Path
from typing import Any, cast

import torch
from safetensors import SafetensorError
from torch import Tensor, nn
from transformers import (
    AutoModelForSequenceClassification,
    AutoModelForTokenClassification,
    PreTrainedModel,
)

from vnait.data.tasks import TAGGING
from vnait.positions.method import Method
from vnait.positions.methods import BASE_POSITIONS
from vnait.pretrained import lora
from vnait.pretrained.attach import files
from vnait.pretrained.attach.attached import Attached, attached_owners, settings_of
from vnait.pretrained.attach.attaching import Attachment, attach, detach
from vnait.pretrained.changing import mark, unmark
from vnait.pretrained.loading import from_pretrained, tokenizer_from
from vnait.pretrained.locate import owners_of
from vnait.shared import schemas
from vnait.shared.errors import InputError, as_input_error, first_line
from vnait.shared.files import atomic_folder, check_replaceable, home
from vnait.shared.quiet import logger_at

BASE, ADAPTER, NOTES = "base", "adapter", "tuned.json"  # in the folder of a fine-tuned base
CLASSES = AutoModelForSequenceClassification, AutoModelForTokenClassification  # of texts, of words


def save_adapter(model: nn.Module, folder: str | Path) -> None:
    """Write vnait.safetensors, the attached weights, and vnait.json, the arguments of `attach` and the base.

    The base is described by its name, its class and the SHA-256 of its present weights without heads; the
    adapter fits no other. If the base was trained too, save it with `save_base`.
    """
    check_replaceable(folder, (files.WEIGHTS, files.SETTINGS), "an adapter")
    owners = attached_owners(model)
    with atomic_folder(folder) as draft:
        files.write(draft, {**settings_of(owners), "base": _base_of(owners)}, model.state_dict())


def save_base(model: PreTrainedModel, folder: str | Path) -> None:
    """Write the model without what is attached, for `from_pretrained`; the model itself is unchanged.

    To restore a model, load its base and then the adapter of `save_adapter`.
    """
    weights = {name: tensor for name, tensor in model.state_dict().items() if not files.is_attached(name)}
    configs = [model.config, *(owner.config for owner in owners_of(model).values())]
    unmarked = [config for config in configs if unmark(config)]
    try:
        model.save_pretrained(home(folder), state_dict=weights)
    finally:
        for config in unmarked:
            mark(config)


def load_adapter(
    model: nn.Module, folder: str | Path, *, method: Method | None = None, decoder: Method | None = None
) -> Attachment:
    """Attach what `save_adapter` wrote to the same base. On an error the model is unchanged.

    Args:
        method: the `Method` again, if it was attached as an object and not by name
        decoder: the same of an encoder-decoder's decoder

    Raises:
        InputError: another base, or a damaged folder.
    """
    folder = Path(home(folder))
    settings, weights = files.read(folder)
    base, saved = _base_of(owners_of(model)), settings["base"]
    if saved is None:
        raise InputError(
            f"{folder} is a whole model; load it with AutoModel.from_pretrained or another Auto class."
        )
    if any(base[key] != saved[key] for key in ("class", "sha256")):
        raise InputError(
            f"{folder} is the adapter of {_in_words(saved)}, and this is {_in_words(base)}; load that base, "
            "in the same precision."
        )
    methods = _method("method", method, settings, folder), _method("decoder", decoder, settings, folder)
    return _attach(model, methods, settings, weights, folder)


def attach_from(model: nn.Module, folder: Path) -> Attachment:
    """Attach what `save_pretrained` of an attached model wrote into this model's folder."""
    settings, weights = files.read(folder)
    return _attach(model, (settings["method"], settings["decoder"]), settings, weights, folder)


def _attach(
    model: nn.Module,
    methods: tuple[str | Method | None, str | Method | None],
    settings: dict[str, Any],
    weights: dict[str, Tensor],
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
            prefix = f"{path}.vnait.".removeprefix(".")
            named = {name.removeprefix(prefix): weights[name] for name in weights if name.startswith(prefix)}
            owner.vnait.load_state_dict(named)
            # As it was in `attach`: the vectors of a base trained since may round to another power of two.
            owner.vnait.scale = scale
    except (RuntimeError, ValueError) as error:
        detach(model)
        raise InputError(
            f"{folder} does not fit: its weights aren't those of {' and '.join(attachment.method)}; save it "
            "again."
        ) from error
    return attachment


def _method(side: str, method: Method | None, settings: dict[str, Any], folder: Path) -> str | Method | None:
    """The saved name of one side's method, or the `Method` passed for it; None if the side does not exist."""
    name: str | None = settings[side]
    index = 0 if side == "method" else 1
    if name is not None and method is not None:
        raise InputError(f"{folder} is the adapter of the method {name}; leave {side}= out.")
    if name is None and method is None and index < len(settings["described"]):
        words = settings["described"][index]
        raise InputError(f"{folder} has the weights of a Method of your own ({words}); give it as {side}=.")
    return name if method is None else method


def _base_of(owners: dict[str, PreTrainedModel]) -> dict[str, str]:
    """Name, class and checksum, which an adapter is for."""
    parts = [owner for _, owner in sorted(owners.items())]
    return {
        "name": parts[0].config._name_or_path,
        "class": " and ".join(type(part).__name__ for part in parts),
        "sha256": checksum(parts),
    }


def checksum(owners: Sequence[nn.Module]) -> str:
    """SHA-256 of the models' own weights, by name, type, shape and bytes, without what is attached."""
    digest = hashlib.sha256()
    for owner in owners:
        # Without peft's adapters, and under the names that the layers have without them.
        state = {name.replace(".base_layer.", "."): tensor for name, tensor in owner.state_dict().items()}
        for name, tensor in sorted(state.items()):
            if not name.startswith("vnait.") and ".lora_" not in name:
                digest.update(f"{name} {tensor.dtype} {tuple(tensor.shape)}\n".encode())
                flat = tensor.detach().cpu().contiguous().reshape(-1)
                digest.update(flat.view(torch.uint8).numpy())  # without a copy
    return digest.hexdigest()


def _in_words(base: dict[str, str]) -> str:
    return f"{base['class']} {base['name'] or '(without a name)'} with weights {base['sha256'][:12]}"


def save_tuned(model: PreTrainedModel, tokenizer: Any, folder: Path, notes: dict[str, Any]) -> None:
    """Write base/ (a transformers model with its tokenizer), adapter/ (what was attached) and tuned.json.

    With LoRA base/ has no weights, and lora/ the adapters; `notes["base"]` is then the base.
    """
    if lora.has_lora(model):
        notes = notes | lora.save_lora(model, folder / lora.FOLDER, folder / BASE, notes["base"])
    else:
        save_base(model, folder / BASE)
    tokenizer.save_pretrained(folder / BASE)
    if notes["method"] != BASE_POSITIONS:
        save_adapter(model, folder / ADAPTER)
    (folder / NOTES).write_text(json.dumps(notes, indent=2) + "\n", encoding="utf-8")


def load_tuned(folder: Path) -> tuple[PreTrainedModel, Any, dict[str, Any]]:
    """Read what `save_tuned` wrote: classifier, tokenizer, notes."""
    after = ". Save the model again, or train it again."
    kinds = (OSError, ValueError, RuntimeError, SafetensorError)  # RecursionError is a RuntimeError
    with as_input_error(kinds, f"{folder} is damaged: ", after, message=first_line):
        notes = schemas.check(schemas.Tuned, json.loads((folder / NOTES).read_text(encoding="utf-8")))
        tokenizer = tokenizer_from(folder / BASE)
        kind = CLASSES[notes.get("task") == TAGGING]
        if "base" in notes:
            model = lora.load_base(kind, folder / BASE, dict(notes))
        else:
            model = from_pretrained(kind, folder / BASE, use_safetensors=True)
        if notes["method"] != BASE_POSITIONS:
            load_adapter(model, folder / ADAPTER)
        if "base" in notes:
            lora.load_lora(model, folder / lora.FOLDER)
    return model.eval(), tokenizer, dict(notes)


def read_by_method(model: PreTrainedModel, command: str) -> PreTrainedModel:
    """The part of a fine-tuned base that has a method attached; `InputError` if there is none, or two."""
    owners = [part for part in model.modules() if isinstance(getattr(part, "vnait", None), Attached)]
    if len(owners) != 1:
        has = "two attached methods" if owners else "its own positions"
        raise InputError(
            f"this model was fine-tuned from a pretrained base with {has}, which {command} can't read; use "
            "vnait.audit."
        )
    return cast(PreTrainedModel, owners[0])
