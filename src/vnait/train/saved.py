"""The folder of a saved classifier: which files it has, and what can be wrong with them."""

from collections import Counter
from pathlib import Path
from typing import Any

import torch
from transformers import AutoTokenizer

from vnait.model import (
    CLASSIFIERS,
    VnaitConfig,
    VnaitForSequenceClassification,
    VnaitForTokenClassification,
)
from vnait.positions.methods import METHODS
from vnait.pretrained.loading import from_pretrained
from vnait.results.record import Record
from vnait.shared import schemas
from vnait.shared.errors import InputError, as_input_error, first_line
from vnait.shared.quiet import no_bars

Classifier = VnaitForSequenceClassification | VnaitForTokenClassification


def record_in(folder: Path) -> Record | None:
    """The record of its training; None if the folder has none."""
    path = folder / "record.json"
    if not path.is_file():
        return None
    fields = schemas.read(schemas.RecordFields, path, ". Delete it; the model works without it.")
    return Record(**schemas.known(schemas.RecordFields, fields))


def load_both(folder: Path) -> tuple[Classifier, Any]:
    """A classifier and its tokenizer, or an `InputError` if one does not fit the other."""
    with no_bars():
        model = load_classifier(folder)
        tokenizer = _tokenizer(folder)
    if len(tokenizer) != model.config.vocab_size:
        raise InputError(
            f"{folder} is damaged: it has {len(tokenizer)} words and {model.config.vocab_size} vectors."
        )
    counts = Counter(tokenizer.get_vocab().values())
    shared = max(counts, key=counts.__getitem__)
    if counts[shared] > 1:
        raise InputError(f"{folder} is damaged: two words of its tokenizer have the id {shared}.")
    if (last := max(counts)) >= len(tokenizer):
        raise InputError(
            f"{folder} is damaged: a word has the id {last}, and there are {len(tokenizer)} words."
        )
    if tokenizer.pad_token_id != model.config.pad_token_id:
        raise InputError(
            f"{folder} is damaged: its tokenizer pads with {tokenizer.pad_token_id}, and its model expects "
            f"{model.config.pad_token_id}."
        )
    if model.config.unk_token_id not in (None, tokenizer.unk_token_id):
        raise InputError(
            f"{folder} is damaged: its tokenizer's unknown word has the id {tokenizer.unk_token_id}, and its "
            f"model expects {model.config.unk_token_id}."
        )
    return model, tokenizer


def load_classifier(folder: str | Path) -> Classifier:
    """The classifier saved in a folder, or an `InputError` with the folder's fault."""
    folder = Path(folder)
    settings = _settings(folder)
    kinds = {kind.__name__: kind for kind in CLASSIFIERS}
    names = settings.get("architectures") or [""]
    if settings.get("model_type") != "vnait" or len(names) != 1 or names[0] not in kinds:
        raise InputError(
            f"{folder} holds no vnait classifier (its config.json names {settings.get('architectures')})."
        )
    if settings.get("method", "vnait") not in METHODS:
        raise InputError(
            f"{folder} was trained with the method {settings['method']!r}, which is not known here; register "
            "it in vnait.METHODS as it was then (on the command line: vnait --plugin FILE), and load the "
            "folder again."
        )
    after = ". Save the model again, or train it again."
    with as_input_error(Exception, f"{folder} is damaged: ", after, message=first_line):
        # Before memory is taken for weights that the files can't have.
        with torch.device("meta"):
            weights = kinds[names[0]](from_pretrained(VnaitConfig, folder)).num_parameters()
        if weights > sum(file.stat().st_size for file in folder.glob("*.safetensors")):
            raise ValueError(
                f"its config.json is of a model with {weights:,} weights, more than its files have"
            )
        model, info = from_pretrained(kinds[names[0]], folder, output_loading_info=True, use_safetensors=True)
    if info["missing_keys"] or info["unexpected_keys"] or info["mismatched_keys"]:
        keys = sorted([*info["missing_keys"], *info["unexpected_keys"]])[:3]
        raise InputError(
            f"{folder} is damaged: its weights don't fit its config.json (for one, {', '.join(keys)})."
        )
    return model.eval()


def _tokenizer(folder: Path) -> Any:
    if not (folder / "tokenizer.json").is_file():
        raise InputError(f"{folder} is damaged: it has no tokenizer.json.")
    if (folder / "tokenizer_config.json").is_file():
        schemas.read(schemas.TokenizerConfig, folder / "tokenizer_config.json")
    with as_input_error(Exception, f"{folder} is damaged: its tokenizer.json can't be read (", ")."):
        tokenizer = from_pretrained(AutoTokenizer, folder)
        if tokenizer.unk_token_id is None:  # the property fails, too, where the token is not a word
            raise ValueError("it has no token for unknown words")
        return tokenizer


def _settings(folder: Path) -> dict[str, Any]:
    path = folder / "config.json"
    if not path.is_file():
        inner = folder / "model"  # of a comparison's folder
        remedy = (
            f"Its model is in {inner}." if inner.is_dir() else "Give a folder that `vnait train --out` made."
        )
        raise InputError(f"{folder} is not a saved model: it has no config.json. {remedy}")
    return dict(schemas.read(schemas.Config, path))
