"""Fine-tune a pretrained encoder from a folder or the hub, with its own positions or an attached method."""

from __future__ import annotations

import copy
import inspect
import json
import logging
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from transformers import AutoConfig, AutoModel, PreTrainedModel

from vnait.data.rows import collate
from vnait.data.sentences import Piece
from vnait.data.tasks import CLASSIFICATION, PROBLEMS, TAGGING
from vnait.positions.building import build, for_pretrained
from vnait.positions.methods import BASE_POSITIONS, CAUSAL
from vnait.pretrained import tokens
from vnait.pretrained.attach.attaching import attach
from vnait.pretrained.attach.files import is_attached
from vnait.pretrained.attach.saving import CLASSES
from vnait.pretrained.changing import OWN_TYPE
from vnait.pretrained.loading import from_pretrained, tokenizer_from
from vnait.pretrained.locate import find_sites
from vnait.pretrained.lora import add_lora
from vnait.shared.errors import InputError, as_input_error, first_line
from vnait.shared.files import fingerprint
from vnait.shared.quiet import logger_at, no_bars
from vnait.shared.randomness import Draws
from vnait.train.logits import SEPARATOR
from vnait.train.run import Run

SKETCH_WORDS = 64
logger = logging.getLogger("vnait")
FASTER = 10  # the attached method's learning rate over the base's: it starts untrained, the base does not


@dataclass(frozen=True, eq=False)
class Base:
    """A pretrained model's name or folder, and its tokenizer."""

    source: str
    tokenizer: Any

    @classmethod
    def load(cls, source: str | Path) -> Base:
        """Load the tokenizer; a folder needs no network. `InputError` if the source can't be used."""
        tokenizer = tokenizer_from(source)
        folder = Path(source).expanduser()
        config = folder / "config.json"
        if config.is_file() and json.loads(config.read_text(encoding="utf-8")).get("model_type") == "vnait":
            raise InputError(
                f"{source} is a model of vnait, trained from scratch; a base is a pretrained model of "
                "transformers, such as a BERT."
            )
        return cls(str(folder) if folder.exists() else str(source), tokenizer)

    @cached_property
    def sketch(self) -> PreTrainedModel | None:
        """The body of the model with one layer, few words and random weights: what `attach` refuses, it
        refuses here, before the real weights are loaded. None if the type can't be made so small.
        """
        with no_bars(), logger_at("transformers", logging.ERROR), Draws(0).everywhere(), suppress(Exception):
            config = from_pretrained(AutoConfig, self.source)
            if getattr(config, OWN_TYPE, None) or config is not config.get_text_config():
                return None
            config.num_hidden_layers, config.vocab_size = 1, SKETCH_WORDS
            for name in ("layer_types", "mlp_layer_types"):
                if getattr(config, name, None):
                    setattr(config, name, getattr(config, name)[:1])
            if (config.pad_token_id or 0) >= SKETCH_WORDS:
                config.pad_token_id = None
            model: PreTrainedModel = AutoModel.from_config(config, dtype=torch.float32)
            return model.eval()
        return None

    @property
    def default_method(self) -> str:
        """vnait, or to a decoder its causal member."""
        sites = () if self.sketch is None else find_sites(self.sketch)
        if len(sites) != 1 or not sites[0].causal:
            return Run.method
        logger.info("%s reads from left to right, so its method is %s", self.source, CAUSAL)
        return CAUSAL

    def check(self, run: Run) -> None:
        """Raise InputError if the run's method can't be attached, before any weights are loaded."""
        if run.method == BASE_POSITIONS or self.sketch is None:
            return
        # Draws of its own, so that a check within a training takes none of the training's.
        with Draws(run.seed).everywhere(), logger_at("vnait", logging.WARNING):
            warm = _only_adds_vectors(run.method)
            attach(copy.deepcopy(self.sketch), run.method, warm_start="exact" if warm else None)

    @property
    def fingerprint(self) -> str:
        """Sixteen hexadecimal digits: `shared.files.fingerprint` of the source."""
        return fingerprint(self.source)

    def encode(self, texts: Sequence[str], *, max_length: int) -> list[list[int]]:
        return tokens.encode(self.tokenizer, texts, max_length=max_length)

    def pieces(self, texts: Sequence[str], *, max_length: int) -> list[list[Piece]]:
        return tokens.encode_words(self.tokenizer, texts, max_length=max_length)

    def new_model(
        self, run: Run, classes: Sequence[str], lengths: Sequence[int], task: str = CLASSIFICATION
    ) -> PreTrainedModel:
        """A classifier on the base with the run's method attached; its head is random."""
        self.check(run)
        names = dict(enumerate(classes))
        before = f"{self.source} can't be loaded as a classifier: "
        new_head = logger_at("transformers", logging.ERROR)  # which it would warn of
        with no_bars(), new_head, as_input_error(Exception, before, ".", message=first_line):
            model = from_pretrained(
                CLASSES[task == TAGGING],
                self.source,
                **({"problem_type": PROBLEMS[task]} if task in PROBLEMS else {}),
                id2label=names,
                label2id={name: index for index, name in names.items()},
            )
        model.config.pad_token_id = self.tokenizer.pad_token_id
        setattr(model.config, SEPARATOR, self.separator(model))
        if run.method != BASE_POSITIONS:
            mean = sum(lengths) / len(lengths)
            warm = _only_adds_vectors(run.method)
            attach(model, run.method, warm_start="exact" if warm else None, mean_length=mean)
        elif run.max_length > (limit := _longest(model, run.max_length)):
            raise InputError(
                f"max_length is {run.max_length}, and {self.source} reads {limit} tokens with its own "
                "positions; lower it, or take a method without that limit, such as vnait."
            )
        if run.lora:
            add_lora(model)
        return model

    def separator(self, model: PreTrainedModel) -> int | None:
        """The id after which a pair's second text has token type 1; None if the model reads no such types."""
        pair, separator = self.tokenizer("a", "b"), self.tokenizer.sep_token_id
        types, ids = pair.get("token_type_ids"), pair["input_ids"]
        reads = "token_type_ids" in inspect.signature(model.forward).parameters
        if types is None or not reads or getattr(model.config, "type_vocab_size", 0) < 2:
            return None
        batch = collate([ids], pad_id=self.tokenizer.pad_token_id, separator=separator)
        return separator if batch["token_type_ids"][0].tolist() == types else None


@torch.no_grad()
def _longest(model: PreTrainedModel, length: int) -> int:
    """How many tokens the model reads with its own positions, up to `length`.

    Found by running it: RoBERTa's table of 514 rows is for 512 tokens.
    """
    longest = min(length, getattr(model.config, "max_position_embeddings", length))
    word = 0 if model.config.pad_token_id else 1  # not padding, which RoBERTa does not count
    while longest:
        try:
            model.eval()(torch.full((1, longest), word))
            break
        except (IndexError, RuntimeError):
            longest -= 1
    return longest


def groups(model: nn.Module, run: Run) -> list[dict[str, Any]]:
    """Parameter groups for an optimizer: matrices decay, attached weights learn `FASTER`."""
    kinds: dict[tuple[bool, bool], list[Tensor]] = {}
    for name, weight in model.named_parameters():
        if weight.requires_grad:
            kinds.setdefault((is_attached(name), weight.ndim >= 2), []).append(weight)
    return [
        {
            "params": params,
            "lr": run.rate * (FASTER if attached else 1),
            "weight_decay": run.weight_decay if wide else 0.0,
        }
        for (attached, wide), params in kinds.items()
    ]


def _only_adds_vectors(method: str) -> bool:
    """Whether it has neither bias nor angles, and so can start from the base's own positions."""
    built = for_pretrained(build(method, dim=8, num_heads=2, max_length=8))
    injection = built(torch.zeros(1, 3, 8), torch.ones(1, 3, dtype=torch.bool)).injection.dense()
    return injection.added is not None and injection.bias is None and injection.rotary is None
