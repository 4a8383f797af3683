"""Loading a saved classifier."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from vnait.errors import InputError, first_line
from vnait.methods import METHODS
from vnait.model.heads import VnaitForSequenceClassification


def load_classifier(folder: str | Path) -> VnaitForSequenceClassification:
    """The classifier saved in a folder, or an `InputError` with the folder's fault."""
    folder = Path(folder)
    settings = _settings(folder)
    if settings.get("model_type") != "vnait" or settings.get("architectures") != [
        "VnaitForSequenceClassification"
    ]:
        raise InputError(
            f"{folder} holds no vnait classifier (its config.json says {settings.get('architectures')})."
        )
    if settings.get("method", "vnait") not in METHODS:
        raise InputError(
            f"{folder} was trained with the method {settings['method']!r}, which is not known here; register "
            "it in vnait.METHODS as it was then, and load the folder again."
        )
    try:
        model, info = VnaitForSequenceClassification.from_pretrained(
            folder, output_loading_info=True, local_files_only=True
        )
    except InputError:
        raise
    except Exception as error:
        raise InputError(
            f"{folder} is damaged: {first_line(error)}. Save the model again, or train it again."
        ) from error
    if info["missing_keys"] or info["unexpected_keys"] or info["mismatched_keys"]:
        keys = sorted([*info["missing_keys"], *info["unexpected_keys"]])[:3]
        raise InputError(
            f"{folder} is damaged: its weights don't fit its config.json (for one, {', '.join(keys)})."
        )
    return model.eval()


def _settings(folder: Path) -> dict[str, Any]:
    path = folder / "config.json"
    if not path.is_file():
        raise InputError(
            f"{folder} is no saved model: it has no config.json. Give a folder that `vnait train --out` made."
        )
    try:
        settings = json.loads(path.read_text(encoding="utf-8"))
    except ValueError as error:
        raise InputError(f"{path} is damaged: {first_line(error)}.") from error
    return settings if isinstance(settings, dict) else {}
