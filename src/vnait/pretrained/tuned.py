"""The folder of a fine-tuned base, and the part of its model that a method is attached to."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, cast

from transformers import (
    AutoModelForSequenceClassification,
    AutoModelForTokenClassification,
    PreTrainedModel,
)

from vnait.data.tasks import TAGGING
from vnait.positions.methods import BASE_POSITIONS
from vnait.pretrained.attach.adapters import load_adapter
from vnait.pretrained.attach.attached import Attached
from vnait.pretrained.attach.saving import save_adapter, save_base
from vnait.pretrained.loading import from_pretrained, tokenizer_from
from vnait.shared import schemas
from vnait.shared.errors import InputError, as_input_error, first_line

BASE, ADAPTER, NOTES = "base", "adapter", "tuned.json"  # in the folder
SEPARATOR = "pair_separator"  # in a configuration: the id after which a pair's second text has token type 1
CLASSES = AutoModelForSequenceClassification, AutoModelForTokenClassification  # of texts, of words


def save(model: PreTrainedModel, tokenizer: Any, folder: Path, notes: dict[str, Any]) -> None:
    """Write base/ (a transformers model with its tokenizer), adapter/ (what was attached) and tuned.json."""
    save_base(model, folder / BASE)
    tokenizer.save_pretrained(folder / BASE)
    if notes["method"] != BASE_POSITIONS:
        save_adapter(model, folder / ADAPTER)
    (folder / NOTES).write_text(json.dumps(notes, indent=2) + "\n", encoding="utf-8")


def load(folder: Path) -> tuple[PreTrainedModel, Any, dict[str, Any]]:
    """Read what `save` wrote: classifier, tokenizer, notes."""
    after = ". Save the model again, or train it again."
    with as_input_error(
        (OSError, ValueError, RecursionError), f"{folder} is damaged: ", after, message=first_line
    ):
        notes = schemas.check(schemas.Tuned, json.loads((folder / NOTES).read_text(encoding="utf-8")))
        tokenizer = tokenizer_from(folder / BASE)
        kind = CLASSES[notes.get("task") == TAGGING]
        model = from_pretrained(kind, folder / BASE, use_safetensors=True)
    if notes["method"] != BASE_POSITIONS:
        load_adapter(model, folder / ADAPTER)
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
