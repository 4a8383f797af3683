"""The model that `vnait doctor` examines: its parts, its texts, and its runs."""

from __future__ import annotations

import copy
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import torch
from jaxtyping import Int
from torch import Tensor, nn
from transformers import PreTrainedModel

from vnait.pretrained.doctor.rule import Evidence, NotTried, Severity, require
from vnait.pretrained.doctor.trial import Measure, Trial, difference, tried
from vnait.pretrained.layers import original_length
from vnait.pretrained.locate import Site, accepts, find_sites, owners_of, rotaries_of
from vnait.shared.errors import InputError

TOLERANCE = 1e-4  # of relative differences in float32; rounding is below 1e-5
LONG = 256  # tokens of the longest text that most rules read
MOST_RESERVED = 16  # rows of a position table before the first position, without a padding row
MOST_ROUNDING = 0.2  # beyond it nothing could be compared
MAX_TOKENS = 1100  # tokens that any rule really reads; further places are tried by position_ids


@dataclass(eq=False, kw_only=True)
class Subject:
    """A model as the rules see it.

    model      the whole model, in evaluation mode
    tokenizer  its tokenizer, or None
    no_tokenizer  the reason if there is none
    source     the folder or name that it was loaded from; None if it was given as an object
    setup      the lines of a script that make `model`; tokenizer_setup, those that make `tokenizer`
    """

    model: PreTrainedModel
    tokenizer: Any = None
    no_tokenizer: str = ""
    source: str | None = None
    setup: tuple[str, ...] = ()
    tokenizer_setup: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        """The class of the model, of one with a prompt that of peft."""
        return type(getattr(self.model, "tuned", self.model)).__name__

    @cached_property
    def body(self) -> Any:
        """The part that gives an output per token: the model, or what is below its head."""
        reason = NotTried("it has no output per token")
        for part in (self.model, self.model.base_model):
            try:
                if self._per_token(part):
                    return part
            except NotTried as error:  # a head may need more than random ids
                reason = error
        raise reason

    @cached_property
    def parts(self) -> tuple[Any, ...]:
        """What gives an output per token, and the whole model if it gives one per text."""
        if self.body is self.model or self._output(self.model, input_ids=self.text(3)) is None:
            return (self.body,)
        return (self.body, self.model)

    @cached_property
    def encodes_and_decodes(self) -> bool:
        """Whether it reads two texts: an encoder's and a decoder's."""
        declared = bool(getattr(self.model.config, "is_encoder_decoder", False))
        # UMT5's encoder alone declares it, too.
        return declared and any(
            path.rpartition(".")[2] == "decoder" for path, _ in self.model.named_modules()
        )

    @cached_property
    def more(self) -> dict[str, Any]:
        """Inputs that every call needs: a decoder's text."""
        return {"decoder_input_ids": self.text(3, row=7)} if self.encodes_and_decodes else {}

    @cached_property
    def sites(self) -> tuple[Site, ...]:
        """Where position enters; `NotTried` if its structure is not known."""
        try:
            return find_sites(self.model)
        except InputError as error:
            raise NotTried(f"where position enters was not found: {error}") from error

    @cached_property
    def owners(self) -> dict[str, PreTrainedModel]:
        """The sides of the model, by path; `NotTried` if they are not found."""
        try:
            return owners_of(self.model)
        except InputError as error:
            raise NotTried(f"where position enters was not found: {error}") from error

    @cached_property
    def text_parts(self) -> tuple[nn.Module, ...]:
        """The parts that read text, without those that read images or sounds; the model if not known."""
        try:
            return tuple(self.owners.values())
        except NotTried:
            return (self.model,)

    @cached_property
    def causal(self) -> bool:
        """Whether a token depends on earlier ones only, by the outputs."""
        if self.encodes_and_decodes:
            return False
        ids, changed = self.text(6), self.text(6).clone()
        changed[:, -1] = self.text(1, row=3)[0]
        # The first token alone: of all states it is the farthest from the last id, which was changed.
        states = [self.call(self.body, input_ids=text)[0][:, 0] for text in (ids, changed)]
        return difference(*states) <= self.tolerance / 10

    @cached_property
    def tolerance(self) -> float:
        """Largest relative difference that is rounding: by the precision, and as it grows in this model."""
        return max(TOLERANCE, 8 * torch.finfo(self.model.dtype).eps, min(4 * self.rounding, MOST_ROUNDING))

    @cached_property
    def rounding(self) -> float:
        """How much outputs move if each word vector is changed by its last digit; a few of these at least."""
        ids, eps = self.text(6), torch.finfo(self.model.dtype).eps

        def nudged(part: nn.Module, args: Any, vectors: Any) -> Tensor | None:
            if not isinstance(vectors, Tensor):  # I-BERT's come with their scale
                return None
            signs = torch.arange(vectors.numel(), device=vectors.device).view(vectors.shape) % 2
            return vectors * (1 + eps * (2 * signs - 1)).to(vectors.dtype)

        try:
            table = self.body.get_input_embeddings()
        except NotImplementedError:  # models of hashed words or characters
            return 4 * eps
        before = self.call(self.body, input_ids=ids)[0]
        with table.register_forward_hook(nudged):
            return max(4 * eps, difference(before, self.call(self.body, input_ids=ids)[0]))

    @cached_property
    def requantizes(self) -> bool:
        """Whether activations are quantized in every call, by the largest of its batch."""
        return any(type(part).__module__.startswith("torch.ao.nn.quantized") for part in self.model.modules())

    def need_equal_numbers(self) -> None:
        """`NotTried` of a model whose activations are quantized by the batch."""
        require(
            not self.requantizes,
            "its activations are quantized by the batch, so that a text's numbers follow its batch (PAD04)",
        )

    def need_float32(self) -> None:
        """`NotTried` in half precision, for rules that see the smallest differences."""
        require(
            torch.finfo(self.model.dtype).bits >= 32,
            "half precision rounds away what this rule looks at; load it in float32",
        )

    @cached_property
    def original_length(self) -> int | None:
        """The length past which the frequencies of a rotation follow the longest text; None of others."""
        if self.attached:
            return None  # which reads no text past it
        try:
            rotaries = [self.model.get_submodule(path) for path, _, _ in self.rotations()]
        except NotTried:
            return None
        return min((length for part in rotaries if (length := original_length(part))), default=None)

    def spread(self, length: int) -> Int[Tensor, "1 T"]:
        """Six places of a text of this length, the first and the last among them."""
        return torch.linspace(0, length - 1, 6, device=self.model.device).long()[None]

    def reset(self) -> None:
        """Read a short text: it sets back the frequencies of a rotation that follow the longest one."""
        with suppress(Exception):  # a device that failed is for the rule that used it
            self.call(self.body, input_ids=self.text(2))

    @cached_property
    def pad(self) -> int:
        """The padding id of the configuration, else of the tokenizer; 0 if it is none of the vocabulary."""
        number = getattr(self.model.config, "pad_token_id", None)
        number = getattr(self.tokenizer, "pad_token_id", None) if number is None else number
        return number if isinstance(number, int) and 0 <= number < self.vocabulary else 0

    @cached_property
    def vocabulary(self) -> int:
        """How many ids there are."""
        try:
            return int(self.model.config.get_text_config().vocab_size)
        except AttributeError as error:
            raise NotTried("its configuration has no vocab_size") from error

    @cached_property
    def first(self) -> int | None:
        """Where `position_ids` start that change nothing; None if nowhere."""
        places = (0, self.pad + 1, 1, 2)  # RoBERTa's follows its padding id
        return next((place for place in places if self._starts_at(place)), None)

    def first_position(self) -> int:
        """`first`, or `NotTried` if there is none."""
        if self.first is None:
            raise NotTried("which position_ids it takes by itself was not found (POS02)")
        return self.first

    @cached_property
    def reserved(self) -> int:
        """How many rows its position table has before the first position, by its padding row or its size."""
        modules = [table.module for site in self.sites for table in site.tables]
        tables = [module for module in modules if isinstance(module, nn.Embedding)]
        padding = [table.padding_idx + 1 for table in tables if table.padding_idx is not None]
        declared = getattr(self.body.config, "max_position_embeddings", None)
        # OPT's table has two rows more than it declares; LayoutLM's tables of other places have many more.
        surplus = [table.num_embeddings - declared for table in tables if isinstance(declared, int)]
        return max([0, *padding, *(rows for rows in surplus if rows < MOST_RESERVED)])

    @cached_property
    def declared(self) -> int | None:
        """The length that its configuration declares, if any: `max_position_embeddings`."""
        length = getattr(self.model.config.get_text_config(), "max_position_embeddings", None)
        return length if isinstance(length, int) else None

    @cached_property
    def longest(self) -> int:
        """A length that it reads, at most LONG and what it declares."""
        count = LONG if self.declared is None else min(self.declared - self.reserved, LONG)
        while count > 6 and self._output(self.body, input_ids=self.text(count)) is None:
            count //= 2
        return count

    @cached_property
    def convolves(self) -> bool:
        """Whether a convolution reads neighbours."""
        trigrams = getattr(self.model.config, "trigram_input", False)  # MobileBERT reads them as one word
        modules = [part for reader in self.text_parts for part in reader.modules()]
        parts = [part for part in modules if isinstance(part, nn.Conv1d | nn.Conv2d)]
        return trigrams or any(max(part.kernel_size) > 1 for part in parts)

    @property
    def attached(self) -> bool:
        """Whether a method is attached to it."""
        return any(hasattr(part, "vnait") for part in self.text_parts)

    @cached_property
    def alibi(self) -> bool:
        """Whether its configuration asks for ALiBi, beside which Falcon keeps an idle rotation."""
        return bool(getattr(self.body.config.get_text_config(), "alibi", False))

    @cached_property
    def caches(self) -> bool:
        """Whether it returns a cache of keys and values."""
        output = self._output(self.body, input_ids=self.text(3), use_cache=True)
        return getattr(output, "past_key_values", None) is not None

    @contextmanager
    def attending(self, implementation: str) -> Iterator[None]:
        """Attention of an implementation, whatever it was before, and is again after.

        It is set without transformers' check, since gpt-oss's queries can be looked at in PyTorch's function.
        """
        configs: dict[int, Any] = {id(part.config): part.config for part in self.text_parts}
        configs |= {id(self.model.config): self.model.config}
        before = {number: config._attn_implementation for number, config in configs.items()}
        for config in configs.values():
            config._attn_implementation = implementation
        try:
            yield
        finally:
            # The whole model's first: transformers hands its setting on to the parts.
            for number, config in reversed(configs.items()):
                config._attn_implementation = before[number]

    def accepts(self, name: str) -> bool:
        """Whether its forward takes an argument of this name."""
        return accepts(self.body, name)

    def need(self, name: str) -> None:
        """`NotTried` unless its forward takes this argument."""
        require(self.accepts(name), f"it takes no {name}")

    def text(self, count: int, row: int = 0) -> Int[Tensor, "1 T"]:
        """A text of different ordinary ids, the same on every call; `row` chooses another one."""
        usable = self._usable
        ids = [usable[(7 * row + (5 + 2 * row) * place) % len(usable)] for place in range(count)]
        return torch.tensor([ids], device=self.model.device)

    @cached_property
    def _usable(self) -> list[int]:
        """Ordinary ids, some 190 of them; the first tenth is left out, where many tokenizers have marks."""
        special = {self.pad, *(getattr(self.tokenizer, "all_special_ids", None) or ())}
        for name, value in vars(self.model.config.get_text_config()).items():
            if name.endswith("token_id"):
                special.update(value if isinstance(value, list) else [value])  # Llama has several ends
        step = max(self.vocabulary // 211, 1)
        usable = range(self.vocabulary // 10, self.vocabulary, step)
        return [number for number in usable if number not in special] or [0]

    def rotations(self) -> Iterator[tuple[str, str, dict[str, Any]]]:
        """Path, buffer of frequencies, and other arguments of every rotation of its own configuration."""
        rotaries = [(side, part.path) for side, owner in self.owners.items() for part in rotaries_of(owner)]
        require(rotaries, "it has no rotation")
        for pair in rotaries:
            path = ".".join(pair).removeprefix(".")
            for name, _ in self.model.get_submodule(path).named_buffers(recurse=False):
                if name.endswith("inv_freq") and "original" not in name:
                    layer = name.removesuffix("inv_freq").rstrip("_")
                    yield path, name, {"layer_type": layer} if layer else {}

    def call(self, part: Any, **inputs: Any) -> Any:
        """One run of a part; any error of the model is a `NotTried`."""
        return tried(part, **{**self.more, **inputs})

    def trial(self, measure: Measure, smallest: str, /, *, part: Any = None, **arguments: Any) -> Trial:
        """A measurement on a part of the model, or on its body, with the input in a few words."""
        return Trial(self, measure, smallest, part, arguments)

    def first_over(
        self,
        trials: list[Trial],
        what: str,
        *,
        parts: Sequence[Any] = (),
        severity: Severity | None = None,
        advice: str | None = None,
        quantized: bool = False,
    ) -> Evidence | None:
        """Evidence of the first trial whose size is over the tolerance, with the largest size of all.

        Each of the parts, or the body, is tried until one has such a trial. `NotTried` of a model whose
        activations are quantized by the batch, unless `quantized`.
        """
        if not quantized:
            self.need_equal_numbers()
        for part in parts or (self.body,):
            # All are run: the finding gives the smallest input that shows it, and the largest size.
            trials_over = [
                trial
                for trial in (replace(trial, part=part) for trial in trials)
                if trial.size > self.tolerance and not self._is_rounding(trial)
            ]
            if trials_over:
                size = max(trial.size for trial in trials_over)
                measured = f"{what} by {size:.2g} times the largest one"
                return trials_over[0].evidence(measured, size=size, severity=severity, advice=advice)
        return None

    def _is_rounding(self, trial: Trial) -> bool:
        """Whether a difference of a whole model vanishes in float64, as that of a single logit near 0."""
        if trial.part not in self.parts[1:]:
            return False
        try:
            exact = replace(trial, part=copy.deepcopy(self.model).double())
            return exact.size < trial.size / 1000
        except (NotTried, RuntimeError, TypeError):  # it can't be copied, or runs in one precision only
            return False

    def _output(self, part: Any, **inputs: Any) -> Any:
        """What a part gives; None if it can't be run."""
        try:
            return self.call(part, **inputs)
        except NotTried:
            return None

    def _per_token(self, part: Any) -> bool:
        # Two lengths, since one may equal another size of an output by chance.
        for count in (5, 6):
            output = self.call(part, input_ids=self.text(count))[0]
            places = self.more["decoder_input_ids"].shape[1] if self.more else count
            if not isinstance(output, Tensor) or tuple(output.shape[1:2]) != (places,):
                return False
        return True

    def _starts_at(self, first: int) -> bool:
        try:
            trial = self.trial(restated, "", ids=self.text(6), first=first, **self.more)
            return trial.size <= self.tolerance
        except NotTried:
            return False


def restated(model: Any, ids: Tensor, first: int, **more: Any) -> float:
    """How much outputs change if the positions that a model takes by itself are passed to it."""
    mask = torch.ones_like(ids)
    counted = model(input_ids=ids, attention_mask=mask, **more)[0]
    positions = mask.cumsum(-1) - 1 + first
    return difference(counted, model(input_ids=ids, attention_mask=mask, position_ids=positions, **more)[0])
