"""The model to examine, from an object, a folder or a name on the hub."""

from __future__ import annotations

import inspect
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
import transformers
from torch import nn
from transformers import AutoConfig, AutoModel, AutoTokenizer, PreTrainedModel

from vnait.pretrained.doctor.prompts import Prompted
from vnait.pretrained.doctor.rule import NotTried
from vnait.pretrained.doctor.subject import Subject
from vnait.pretrained.loading import auto_classes, from_pretrained
from vnait.pretrained.locate import accepts
from vnait.shared.errors import InputError, as_input_error, first_line
from vnait.shared.quiet import no_bars

BASELINE = "baseline.json"  # which the folder of a linear model has
TOKENIZER = ("tokenizer = ...  # its tokenizer",)
TOKENIZERS = ("tokenizer*", "vocab*", "*.model", "spiece*")
ADAPTERS = {"adapter_config.json": "a PEFT adapter", "vnait.json": "an adapter of vnait"}


def subject_of(model: Any, tokenizer: Any = None) -> Subject:
    """The subject of an object, or of a folder or name; `InputError` if it is none of transformers."""
    if not isinstance(model, str | Path):
        return _of_object(model, tokenizer)
    subject = _loaded(model)
    if subject.tokenizer is None and tokenizer is not None:
        return replace(subject, tokenizer=tokenizer, tokenizer_setup=TOKENIZER)
    return subject


def check_readable(subject: Subject) -> None:
    """`InputError` unless the model reads ids alone, gives a tensor, and the same one in every run."""
    name = type(subject.model).__name__
    if not accepts(subject.model, "input_ids"):
        takes = next(iter(inspect.signature(subject.model.forward).parameters), "nothing")
        raise InputError(f"{name} reads {takes}, not input_ids; doctor examines models of text.")
    try:
        first, second = (subject.call(subject.body, input_ids=subject.text(6))[0] for _ in range(2))
    except NotTried as error:
        raise InputError(
            f"{name} could not read a random text ({error}); doctor examines models of text that need only "
            "input_ids."
        ) from error
    if not first.isfinite().all():
        raise InputError(f"{name} gives outputs that are not finite, which nothing can be compared with.")
    if not torch.equal(first, second):
        raise InputError(f"{name} gives different outputs in every run, so they can't be compared.")


def _of_object(model: Any, tokenizer: Any) -> Subject:
    """The model of transformers in an object, which may wrap it."""
    if not isinstance(model, nn.Module):
        raise InputError(
            f"doctor was given a {type(model).__name__}; give a model of transformers, its folder, or its "
            "name on the hub."
        )
    inner = next((part for part in model.modules() if isinstance(part, PreTrainedModel)), None)
    if inner is None:
        raise InputError(f"{type(model).__name__} has no model of transformers in it; give one of those.")
    if getattr(getattr(model, "active_peft_config", None), "is_prompt_learning", False):
        return _prompted(model, tokenizer)
    return Subject(
        model=inner,
        tokenizer=getattr(model, "tokenizer", None) if tokenizer is None else tokenizer,
        setup=(f"model = ...  # the {type(inner).__name__} that was examined",),
        tokenizer_setup=TOKENIZER,
    )


def _prompted(model: Any, tokenizer: Any) -> Subject:
    """A model of peft with its prompt, without the outputs of the prompt's tokens."""
    if model.active_peft_config.task_type == "SEQ_CLS":
        raise InputError(
            f"{type(model).__name__} has a prompt, and no output per token with it; give its "
            "get_base_model(), which is examined without the prompt."
        )
    return Subject(
        model=Prompted(model),
        tokenizer=tokenizer,
        setup=(
            "from vnait.pretrained.doctor.prompts import Prompted",
            f"model = Prompted(...)  # the {type(model).__name__} that was examined",
        ),
        tokenizer_setup=TOKENIZER,
    )


def _loaded(source: str | Path) -> Subject:
    """The model of transformers in a folder or of a name."""
    folder = Path(source).expanduser()
    for name, what in ADAPTERS.items():
        if (folder / name).is_file() and not (folder / "config.json").is_file():
            raise InputError(
                f"{source} has {what}, which is not a complete model; load it into its base, and give "
                "the object to vnait.doctor, or the folder of the merged model."
            )
    if (folder / BASELINE).is_file():
        raise InputError(
            f"{source} has a baseline that reads bags of words, without positions; give a Transformer."
        )
    return _pretrained(source)


def _pretrained(source: str | Path) -> Subject:
    """The model of a folder or name, with the script that loads it."""
    prefix = f"{source} can't be loaded as a model of transformers: "
    with no_bars(), as_input_error(Exception, prefix, ".", message=first_line):
        config = from_pretrained(AutoConfig, source)
        auto = _auto(config)
        model = from_pretrained(auto, source, dtype=torch.float32)
    name = type(model).__name__
    public = getattr(transformers, name, None) is type(model) and type(config) is type(model.config)
    loader = name if public else auto.__name__  # others are known to the Auto classes once vnait is imported
    folder = Path(source).expanduser()
    path = str(folder if folder.is_dir() else source)
    tokenizer, missing = _tokenizer(source)
    return Subject(
        model=model.eval(),
        tokenizer=tokenizer,
        no_tokenizer=missing,
        source=str(source),
        setup=(
            *(() if public else ("import vnait",)),
            f"from transformers import {loader}",
            f"model = {loader}.from_pretrained({path!r}, dtype=torch.float32).eval()",
        ),
        tokenizer_setup=(
            "from transformers import AutoTokenizer",
            f"tokenizer = AutoTokenizer.from_pretrained({path!r})",
        ),
    )


def _tokenizer(source: str | Path) -> tuple[Any, str]:
    """The tokenizer, or the reason why there is none."""
    folder = Path(source).expanduser()
    if folder.is_dir() and not any(file for name in TOKENIZERS for file in folder.glob(name)):
        return None, ""  # transformers would make an empty one of the model's type
    try:
        return from_pretrained(AutoTokenizer, source), ""
    except Exception as error:  # transformers raises what it meets
        return None, f"its tokenizer can't be loaded ({first_line(error)[:80]})"


def _auto(config: Any) -> Any:
    """The Auto class that loads the architecture which the configuration names."""
    name = next(iter(config.architectures or ()), None)
    for auto, models in auto_classes(type(config)):
        if name in [model.__name__ for model in models]:
            return auto
    return AutoModel
