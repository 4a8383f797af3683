"""The two files of what is attached: vnait.safetensors, its weights, and vnait.json, how it was attached."""

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from torch import Tensor

from vnait.shared import schemas
from vnait.shared.errors import InputError, as_input_error

FORMAT = 5
WEIGHTS, SETTINGS = "vnait.safetensors", "vnait.json"
AGAIN = "; save the adapter again."


def is_attached(name: str) -> bool:
    """Whether a weight of this name is attached, and not the model's own."""
    return "vnait" in name.split(".")


def write(folder: Path, settings: dict[str, Any], weights: Mapping[str, Tensor]) -> None:
    """Write the settings, and those of a model's weights that are attached."""
    attached = {
        name: weight.detach().cpu().contiguous() for name, weight in weights.items() if is_attached(name)
    }
    save_file(attached, folder / WEIGHTS)
    checksum = hashlib.sha256((folder / WEIGHTS).read_bytes()).hexdigest()
    text = json.dumps({"format": FORMAT, **settings, "weights_sha256": checksum}, indent=2) + "\n"
    (folder / SETTINGS).write_text(text, encoding="utf-8")


def read(folder: Path) -> tuple[dict[str, Any], dict[str, Tensor]]:
    """Read what `write` wrote: settings and weights; `InputError` if a file is missing or damaged."""
    settings = _settings(folder)
    path = folder / WEIGHTS
    if not path.is_file():
        raise InputError(f"{folder} is damaged: it has no {WEIGHTS}{AGAIN}")
    if hashlib.sha256(path.read_bytes()).hexdigest() != settings["weights_sha256"]:
        raise InputError(f"{path} is damaged: its checksum is not the one in {SETTINGS}{AGAIN}")
    with as_input_error(SafetensorError, f"{path} is damaged: ", AGAIN):
        return settings, load_file(path)


def _settings(folder: Path) -> dict[str, Any]:
    path = folder / SETTINGS
    if not path.is_file():
        raise InputError(
            f"{folder} is not an adapter: it has no {SETTINGS}; give a folder that save_adapter wrote."
        )
    with as_input_error((ValueError, RecursionError), f"{path} is damaged: ", AGAIN):
        settings = json.loads(path.read_text(encoding="utf-8"))
    if not isinstance(settings, dict) or settings.get("format") != FORMAT:
        raise InputError(f"{path} is not of format {FORMAT}, which this vnait reads{AGAIN}")
    with as_input_error(ValueError, f"{path} is damaged: ", AGAIN):
        schemas.check(schemas.Adapter, settings)
    return settings
