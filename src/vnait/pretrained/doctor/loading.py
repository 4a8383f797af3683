"""The model to examine, from an object, a folder or a name on the hub."""

from __future__ import annotations

import inspect
from pathlib import Path
from typing import Any

import torch
import transformers
from torch import nn
from transformers import AutoConfig, AutoModel, AutoTokenizer, PreTrainedModel

from vnait.pretrained import tuned
from vnait.pretrained.doctor.rule import NotTried
from vnait.pretrained.doctor.subject import Subject
from vnait.pretrained.loading import auto_classes, from_pretrained
from vnait.pretrained.locate import accepts
from vnait.shared.errors import InputError, as_input_error, first_line
from vnait.shared.quiet import no_bars

BASELINE = "baseline.json"  # which the folder of a linear model has
TOKENIZERS = ("tokenizer*", "vocab*", "*.model", "spiece*")
ADAPTERS = {"adapter_config.json": "a PEFT adapter", "vnait.json": "an adapter of vnait"}


def subject_of(model: Any, tokenizer: Any = None) -> Subject:
    """The subject of an object, or of a folder or name; `InputError` if it is none of transformers."""
    return _loaded(model) if isinstance(model, str | Path) else _of_object(model, tokenizer)


def check_readable(subject: Subject) -> None:
    """`InputError` unless the model reads ids alone, gives a tensor, and the same one in every run."""
    name = type(subject.model).__name__
    if not accepts(subject.model, "input_ids"):
        takes = next(iter(inspect.signature(subject.model.forward).parameters), "nothing")
        raise InputError(f"{name} reads {takes}, not input_ids; doctor examines models of text.")
    try:
        body = subject.body
        one, other = (subject.call(body, input_ids=subject.text(6))[0] for _ in range(2))
    except NotTried as error:
        raise InputError(
            f"{name} could not read a random text ({error}); doctor examines models of text that need only "
            "input_ids."
        ) from error
    if not one.isfinite().all():
        raise InputError(f"{name} gives outputs that are not finite, which nothing can be compared with.")
    if not torch.equal(one, other):
        raise InputError(f"{name} gives different outputs in every run, so they can't be compared.")


def _of_object(model: Any, tokenizer: Any) -> Subject:
    if not isinstance(model, nn.Module):
        raise InputError(
            f"doctor was given a {type(model).__name__}; give a model of transformers, its folder, or its "
            "name on the hub."
        )
    inner = next((part for part in model.modules() if isinstance(part, PreTrainedModel)), None)
    if inner is None:
        raise InputError(f"{type(model).__name__} has no model of transformers in it; give one of those.")
    setup = (f"model = ...  # the {type(inner).__name__} that was examined",)
    return Subject(
        model=inner,
        tokenizer=getattr(model, "tokenizer", None) if tokenizer is None else tokenizer,
        setup=setup,
        tokenizer_setup=("tokenizer = ...  # its tokenizer",),
    )


def _loaded(source: str | Path) -> Subject:
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
    if (folder / tuned.NOTES).is_file():
        with no_bars():
            model, tokenizer, _ = tuned.load(folder)
        lines = ("from vnait.train.predict import load", f"model = load({str(folder)!r}).model")
        return Subject(
            model=model,
            tokenizer=tokenizer,
            source=str(source),
            setup=lines,
            tokenizer_setup=(f"tokenizer = load({str(folder)!r}).tokenizer",),
        )
    return _pretrained(source)


def _pretrained(source: str | Path) -> Subject:
    before = f"{source} can't be loaded as a model of transformers: "
    with no_bars(), as_input_error(Exception, before, ".", message=first_line):
        config = from_pretrained(AutoConfig, source)
        auto = _auto(config)
        model = from_pretrained(auto, source, dtype=torch.float32)
    own = type(model).__name__
    plain = getattr(transformers, own, None) is type(model) and type(config) is type(model.config)
    kind = own if plain else auto.__name__  # others are known to the Auto classes once vnait is imported
    path = _path(source)
    lines = (
        *(() if plain else ("import vnait",)),
        f"from transformers import {kind}",
        f"model = {kind}.from_pretrained({path!r}, dtype=torch.float32).eval()",
    )
    tokenizer, missing = _tokenizer(source)
    return Subject(
        model=model.eval(),
        tokenizer=tokenizer,
        no_tokenizer=missing,
        source=str(source),
        setup=lines,
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


def _path(source: str | Path) -> str:
    """The path of a folder, or the name."""
    folder = Path(source).expanduser()
    return str(folder) if folder.is_dir() else str(source)


def _auto(config: Any) -> Any:
    """The Auto class that loads the architecture which the configuration names."""
    name = next(iter(config.architectures or ()), None)
    found = (auto for auto, models in auto_classes(type(config)) if name in [one.__name__ for one in models])
    return next(found, AutoModel)
