"""A saved folder that transformers loads without `import vnait`, with trust_remote_code=True."""

from __future__ import annotations

import json
from pathlib import Path

from vnait.shared.errors import InputError

STUB = "vnait_auto.py"
AUTO_MAP = {
    auto: f"{STUB.removesuffix('.py')}.{name}"
    for auto, name in {
        "AutoConfig": "VnaitConfig",
        "AutoModel": "VnaitModel",
        "AutoModelForCausalLM": "VnaitForCausalLM",
        "AutoModelForMaskedLM": "VnaitForMaskedLM",
        "AutoModelForSequenceClassification": "VnaitForSequenceClassification",
        "AutoModelForTokenClassification": "VnaitForTokenClassification",
    }.items()
}


def write_auto_map(folder: str | Path) -> None:
    """Let `AutoModel.from_pretrained(folder, trust_remote_code=True)` import vnait by itself.

    It adds `auto_map` to config.json and a file of one import, vnait_auto.py, to the folder of a saved model;
    vnait must be installed where it is loaded. A model loaded that way writes both again when it is saved.
    """
    path = Path(folder) / "config.json"
    if not path.is_file():
        raise InputError(
            f"{folder} is not a saved model: it has no config.json; give a folder of save_pretrained."
        )
    settings = json.loads(path.read_text(encoding="utf-8"))
    if settings.get("model_type") != "vnait":
        raise InputError(
            f"{folder} has a model of the type {settings.get('model_type')!r}, and only those of vnait need "
            "vnait to be imported."
        )
    path.write_text(
        json.dumps(settings | {"auto_map": AUTO_MAP}, indent=2, sort_keys=True) + "\n", encoding="utf-8"
    )
    write_stub(folder)


def write_stub(folder: str | Path) -> None:
    """The file that `AUTO_MAP` names."""
    names = ", ".join(sorted(entry.split(".")[1] for entry in AUTO_MAP.values()))
    doc = '"""transformers takes these classes from the installed vnait."""'
    text = f"{doc}\n\nfrom vnait.model import {names}\n"
    (Path(folder) / STUB).write_text(text, encoding="utf-8")
