"""Which folders saving a model may replace: those with nothing but an older one of ours."""

import json
from pathlib import Path

from vnait.model import VnaitConfig
from vnait.pretrained import lora
from vnait.pretrained.attach.saving import ADAPTER, BASE
from vnait.pretrained.attach.saving import NOTES as TUNED
from vnait.shared import files
from vnait.shared.errors import InputError

LINEAR = "baseline.json"  # of a linear model: its terms and classes
TRANSFORMERS = (
    "config.json generation_config.json model*.safetensors* tokenizer*.json special_tokens_map.json"
)
WRITTEN = (  # the files of a saved model
    *TRANSFORMERS.split(),
    *("record.json", "estimator.json", "README.md"),
    *(LINEAR, BASE, ADAPTER, TUNED, lora.FOLDER),
)


def check_replaceable(folder: str | Path) -> None:
    """Raise InputError if a folder has anything but an older model of ours, which saving would replace."""
    files.check_replaceable(folder, WRITTEN, "a model")
    path = Path(files.home(folder))
    noted = any((path / notes).is_file() for notes in (TUNED, LINEAR))
    ours = noted or _model_type(path / "config.json") == VnaitConfig.model_type
    if path.is_dir() and any(path.iterdir()) and not ours:
        raise InputError(
            f"{folder} is not a model of vnait, and saving one would replace it; choose a new name."
        )


def _model_type(config: Path) -> object:
    """The model type in a model's configuration; None if there is none."""
    try:
        return json.loads(config.read_text(encoding="utf-8")).get("model_type")
    except (OSError, ValueError, AttributeError):
        return None
