"""The model that `vnait doctor` examines: its texts, its runs, and scripts that repeat a measurement."""

from __future__ import annotations

import ast
import inspect
import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import cached_property
from textwrap import shorten
from typing import Any, NamedTuple

import torch
from jaxtyping import Int
from torch import Tensor, nn
from transformers import PreTrainedModel, PreTrainedTokenizerBase

from vnait.pretrained.doctor.rule import Evidence, NotTried
from vnait.pretrained.locate import Site, accepts, find_sites
from vnait.shared.errors import InputError, first_line

TOLERANCE = 1e-4  # of relative differences in float32; rounding is below 1e-5
LONG = 256  # tokens of the longest text that most rules read
Measure = Callable[..., float]


def difference(one: Tensor, other: Tensor) -> float:
    """max |one - other| / max |one|; 0 if they are equal."""
    return 0.0 if torch.equal(one, other) else float((one - other).abs().max() / one.abs().max())


class Case(NamedTuple):
    """An input in a few words, and the arguments of a measurement on it."""

    words: str
    arguments: dict[str, Any]


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
        if self.body is self.model:
            return (self.body,)
        try:
            self.call(self.model, input_ids=self.text(3))
        except NotTried:
            return (self.body,)
        return (self.body, self.model)

    @cached_property
    def encodes_and_decodes(self) -> bool:
        return bool(getattr(self.model.config, "is_encoder_decoder", False))

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
    def causal(self) -> bool:
        """Whether a token depends on earlier ones only, by the outputs."""
        if self.encodes_and_decodes:
            return False
        ids, other = self.text(6), self.text(6).clone()
        other[:, -1] = self.text(1, row=3)[0]
        one, two = (self.call(self.body, input_ids=text)[0][:, 0] for text in (ids, other))
        return difference(one, two) <= self.tolerance / 10

    @cached_property
    def tolerance(self) -> float:
        """Largest relative difference that is rounding."""
        return max(TOLERANCE, 8 * torch.finfo(self.model.dtype).eps)

    @cached_property
    def pad(self) -> int:
        own = getattr(self.model.config, "pad_token_id", None)
        own = getattr(self.tokenizer, "pad_token_id", None) if own is None else own
        return own if isinstance(own, int) and 0 <= own < self.vocabulary else 0

    @cached_property
    def vocabulary(self) -> int:
        try:
            return int(self.model.config.get_text_config().vocab_size)
        except AttributeError as error:
            raise NotTried("its configuration has no vocab_size") from error

    @cached_property
    def first(self) -> int | None:
        """Where `position_ids` start that change nothing; None if nowhere."""
        return next((first for first in self.firsts if self._starts_at(first)), None)

    def first_position(self) -> int:
        """`first`, or `NotTried` if there is none."""
        if self.first is None:
            raise NotTried("which position_ids it takes by itself was not found (POS02)")
        return self.first

    @cached_property
    def reserved(self) -> int:
        """How many rows its position table has before the first position, by its padding row or its size."""
        parts = [table.module for site in self.sites for table in site.tables]
        tables = [part for part in parts if isinstance(part, nn.Embedding)]
        padding = [table.padding_idx + 1 for table in tables if table.padding_idx is not None]
        declared = getattr(self.body.config, "max_position_embeddings", None)
        more = [table.num_embeddings - declared for table in tables if isinstance(declared, int)]
        return max([0, *padding, *more])

    @cached_property
    def longest(self) -> int:
        """A length that it reads, at most LONG and what it declares."""
        declared = getattr(self.body.config.get_text_config(), "max_position_embeddings", None)
        count = min(declared - self.reserved, LONG) if isinstance(declared, int) else LONG
        while count > 6 and not self._reads(count):
            count //= 2
        return count

    @cached_property
    def convolves(self) -> bool:
        """Whether a convolution reads neighbours."""
        trigrams = getattr(self.model.config, "trigram_input", False)  # MobileBERT reads them as one word
        kinds = (nn.Conv1d, nn.Conv2d)
        parts = [part for part in self.model.modules() if isinstance(part, kinds)]
        return trigrams or any(max(part.kernel_size) > 1 for part in parts)

    @cached_property
    def caches(self) -> bool:
        """Whether it returns a cache of keys and values."""
        try:
            output = self.call(self.body, input_ids=self.text(3), use_cache=True)
        except NotTried:
            return False
        return getattr(output, "past_key_values", None) is not None

    @property
    def firsts(self) -> tuple[int, ...]:
        """Ids that a first position may have; RoBERTa's follows its padding id."""
        return tuple(dict.fromkeys((0, self.pad + 1, 1, 2)))

    def accepts(self, name: str) -> bool:
        """Whether its forward takes an argument of this name."""
        return accepts(self.body, name)

    def need(self, name: str) -> None:
        """`NotTried` unless its forward takes this argument."""
        if not self.accepts(name):
            raise NotTried(f"it takes no {name}")

    def text(self, count: int, row: int = 0) -> Int[Tensor, "1 T"]:
        """A text of different ordinary ids, the same on every call; `row` chooses another one."""
        usable = self._usable
        ids = [usable[(7 * row + (5 + 2 * row) * place) % len(usable)] for place in range(count)]
        return torch.tensor([ids], device=self.model.device)

    @cached_property
    def _usable(self) -> list[int]:
        special = {self.pad, *(getattr(self.tokenizer, "all_special_ids", None) or ())}
        for name, value in vars(self.model.config.get_text_config()).items():
            if name.endswith("token_id"):
                special.update(value if isinstance(value, list) else [value])  # Llama has several ends
        step = max(self.vocabulary // 211, 1)
        usable = range(self.vocabulary // 10, self.vocabulary, step)
        return [number for number in usable if number not in special] or [0]

    def call(self, part: Any, **inputs: Any) -> Any:
        """One run of a part; any error of the model is a `NotTried`."""
        return tried(part, **{**self.more, **inputs})

    def case(self, words: str, **arguments: Any) -> Case:
        """A case with what every call needs."""
        return Case(words, {**arguments, **self.more})

    def measure(self, measure: Measure, *, part: Any = None, **arguments: Any) -> float:
        """A measurement on the model, or on a part of it; not a number counts as infinite."""
        size = tried(measure, self.body if part is None else part, **arguments)
        return math.inf if math.isnan(size) else size

    def first_over(
        self,
        measure: Measure,
        cases: Iterable[Case],
        *,
        part: Any = None,
        what: str,
    ) -> Evidence | None:
        """The first case whose size is over the tolerance, with the largest size of all."""
        part = self.body if part is None else part
        sizes = [(self.measure(measure, part=part, **case.arguments), case) for case in cases]
        shown = next(((size, case) for size, case in sizes if size > self.tolerance), None)
        if shown is None:
            return None
        size, case = shown
        return Evidence(
            size=max(size for size, _ in sizes),
            measured=f"{what} by {max(size for size, _ in sizes):.2g} times the largest one",
            smallest=case.words,
            reproduction=self.script(measure, part=part, **case.arguments),
            shown=size,
        )

    def first_over_in_parts(self, measure: Measure, cases: list[Case], *, what: str) -> Evidence | None:
        """`first_over` of the first of `parts` that has such a case."""
        found = (self.first_over(measure, cases, part=part, what=what) for part in self.parts)
        return next(filter(None, found), None)

    def script(self, measure: Measure, *, part: Any = None, **arguments: Any) -> str:
        """The lines that repeat a measurement, without vnait unless the model needs it."""
        helpers = [difference] if "difference" in measure.__code__.co_names else []
        called = "model" if part is None or part is self.model else "model.base_model"
        tokenizes = "tokenizer" in arguments
        given = [f"{name}={_shown(value)}" for name, value in arguments.items()]
        lines = [
            "import torch",
            *self.setup,
            *(self.tokenizer_setup if tokenizes else ()),
            "torch.set_grad_enabled(False)",
            *(plain(function) for function in (*helpers, measure)),
            f"print({measure.__name__}({', '.join([called, *given])}))",
        ]
        return "\n".join(lines)

    def _per_token(self, part: Any) -> bool:
        return all(self._shape(part, count)[1:2] == (self._expected(count),) for count in (5, 6))

    def _shape(self, part: Any, count: int) -> tuple[int, ...]:
        output = self.call(part, input_ids=self.text(count))[0]
        return tuple(output.shape) if isinstance(output, Tensor) else ()

    def _expected(self, count: int) -> int:
        return self.more["decoder_input_ids"].shape[1] if self.more else count

    def _reads(self, count: int) -> bool:
        try:
            self.call(self.body, input_ids=self.text(count))
        except NotTried:
            return False
        return True

    def _starts_at(self, first: int) -> bool:
        try:
            return self.measure(restated, ids=self.text(6), first=first, **self.more) <= self.tolerance
        except NotTried:
            return False


def restated(model: Any, ids: Tensor, first: int, **more: Any) -> float:
    """How much outputs change if the positions that a model takes by itself are passed to it."""
    mask = torch.ones_like(ids)
    own = model(input_ids=ids, attention_mask=mask, **more)[0]
    positions = mask.cumsum(-1) - 1 + first
    return difference(own, model(input_ids=ids, attention_mask=mask, position_ids=positions, **more)[0])


def tried(run: Callable[..., Any], *arguments: Any, **named: Any) -> Any:
    """What it returns; any error is a `NotTried` with its first line."""
    try:
        return run(*arguments, **named)
    except NotTried:
        raise
    except Exception as error:  # any model may raise anything
        raise NotTried(
            f"{type(error).__name__}: {shorten(first_line(error), 400, placeholder=' ...')}"
        ) from error


def _shown(value: Any) -> str:
    if isinstance(value, PreTrainedTokenizerBase):
        return "tokenizer"
    return f"torch.tensor({value.tolist()})" if isinstance(value, Tensor) else repr(value)


def plain(function: Callable[..., Any]) -> str:
    """The source of a function without its docstring and without annotations.

    >>> print(plain(difference))
    def difference(one, other):
        return 0.0 if torch.equal(one, other) else float((one - other).abs().max() / one.abs().max())
    """
    tree = ast.parse(inspect.getsource(function))
    for part in ast.walk(tree):
        if isinstance(part, ast.FunctionDef):
            part.returns = None
            part.body = part.body[1:] if ast.get_docstring(part) else part.body
        elif isinstance(part, ast.arg):
            part.annotation = None
    return ast.unparse(tree)
