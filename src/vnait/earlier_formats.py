"""What the weights of earlier formats lack: models up to format 6, adapters up to format 3."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import torch
from huggingface_hub import snapshot_download
from safetensors import safe_open
from safetensors.torch import load_file, save_file
from torch import Tensor, nn
from transformers.utils import CONFIG_NAME, cached_file

from vnait.inputs.neighbours import Local

OF_HUB = ("cache_dir", "force_download", "local_files_only", "revision", "token")
OF_FILES = (*OF_HUB, "subfolder")  # of a file on the hub


def one_axis(weight: Tensor) -> Tensor:
    """A parameter of one number has one axis, since FSDP shards no other; in earlier formats it has none."""
    return weight.reshape(1) if weight.ndim == 0 else weight


@torch.no_grad()
def divide_taps(module: nn.Module) -> None:
    """Divide all taps by their speed: in earlier formats they are the window itself."""
    for part in module.modules():
        if isinstance(part, Local):
            part.taps.div_(part.speed)


@contextmanager
def readable(name: Any, settings: dict[str, Any], today: int) -> Iterator[tuple[Any, dict[str, Any]]]:
    """The name and settings that load a model of any format: those given, or, of an earlier format, a copy
    of its folder in which every parameter has an axis.
    """
    config = None if name is None else _config_of(name, settings)
    if config is None or _format_in(config, today) >= today:
        yield name, settings
        return
    source = config.parent
    if not Path(name).is_dir():
        downloaded = snapshot_download(name, **{one: settings[one] for one in OF_HUB if one in settings})
        source = Path(downloaded) / settings.get("subfolder", "")
    with TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        for path in filter(Path.is_file, source.iterdir()):
            copy = Path(folder) / path.name
            if path.suffix != ".safetensors":
                shutil.copyfile(path, copy)
                continue
            with safe_open(path, framework="pt") as file:
                about = file.metadata()
            save_file({key: one_axis(weight) for key, weight in load_file(path).items()}, copy, about)
        yield Path(folder), {key: one for key, one in settings.items() if key not in OF_FILES}


def _config_of(name: Any, settings: Mapping[str, Any]) -> Path | None:
    try:
        found = cached_file(
            name,
            CONFIG_NAME,
            _raise_exceptions_for_gated_repo=False,
            _raise_exceptions_for_missing_entries=False,
            _raise_exceptions_for_connection_errors=False,
            **{one: settings[one] for one in OF_FILES if one in settings},
        )
    except (OSError, ValueError):  # transformers reports what is wrong with the name
        return None
    return None if found is None else Path(found)


def _format_in(config: Path, today: int) -> int:
    try:
        return int(json.loads(config.read_text(encoding="utf-8"))["vnait_format"])
    except (OSError, ValueError, KeyError, TypeError):  # transformers reports what is wrong with it
        return today
