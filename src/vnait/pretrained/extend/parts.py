"""The parts of a batch in which some texts are past a model's limit: read apart, and put together again."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import torch
from jaxtyping import Int
from torch import Tensor
from transformers import PreTrainedModel

from vnait.positions.cache import Mask
from vnait.positions.coordinates.shared import rank
from vnait.shared.errors import InputError

Read = Callable[..., Any]  # a model's own forward, by keywords
Special = tuple[int, int]  # special tokens at the beginning and at the end of a text
WINDOWS = 32  # read together
REFUSED = {"past_key_values": "give whole texts, without a cache", "position_ids": "leave it out"}


@dataclass(frozen=True)
class Inputs:
    """The inputs of a forward by name.

    names           that it takes
    buffered_types  whether it takes token types from a buffer, which is as long as its table
    collects        whether hidden states or attentions are asked for, by the inputs or the configuration
    """

    names: tuple[str, ...]
    values: Mapping[str, Any]
    buffered_types: bool = False
    collects: bool = False

    @classmethod
    def of(cls, owner: PreTrainedModel, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Inputs:
        """The inputs of a call of this model."""
        names = tuple(inspect.signature(owner.forward).parameters)
        buffered = any(name.endswith("token_type_ids") for name, _ in owner.named_buffers())
        values = {**dict(zip(names, args, strict=False)), **kwargs}
        asked = [
            getattr(owner.config, name, False) if values.get(name) is None else values[name]
            for name in ("output_hidden_states", "output_attentions")
        ]
        return cls(names, _without_index(values), buffered, any(asked))

    @cached_property
    def length(self) -> int:
        """Tokens per text, those in a cache too; 0 without ids and vectors, which the model refuses."""
        tokens = self._tokens
        cache = self.values.get("past_key_values")
        past = 0 if cache is None else int(cache.get_seq_length())
        return 0 if tokens is None else past + tokens.shape[1]

    @cached_property
    def mask(self) -> Mask:
        """True at real tokens; `InputError` for inputs that texts past the limit can't have."""
        for name, advice in REFUSED.items():
            if self.values.get(name) is not None:
                raise InputError(f"a text past the model's limit was given with {name}; {advice}.")
        if self.values.get("use_cache"):
            raise InputError("a text past the model's limit makes no cache; give use_cache=False.")
        if self.collects:
            raise InputError(
                "hidden states and attentions of texts past the model's limit are not collected; give "
                "texts within it, or leave output_hidden_states and output_attentions out, also of the "
                "configuration."
            )
        mask, tokens = self.values.get("attention_mask"), self._tokens
        assert tokens is not None
        if mask is None:
            return torch.ones(tokens.shape[:2], dtype=torch.bool, device=tokens.device)
        if mask.shape != tokens.shape[:2]:
            raise InputError(
                f"attention_mask is {tuple(mask.shape)}, and the texts are {tuple(tokens.shape[:2])}; give a "
                "number per token."
            )
        return mask.bool()

    @property
    def _tokens(self) -> Tensor | None:
        ids, vectors = self.values.get("input_ids"), self.values.get("inputs_embeds")
        return vectors if ids is None else ids

    def part(self, index: Callable[[Tensor], Tensor]) -> dict[str, Any]:
        """The inputs with every tensor (B, T, ...) indexed, the mask among them, as keywords for one run."""
        per_token = {
            name: index(value)
            for name, value in {**self.values, "attention_mask": self.mask.long()}.items()
            if isinstance(value, Tensor) and value.shape[:2] == self.mask.shape
        }
        if self.buffered_types and self.values.get("token_type_ids") is None:
            per_token["token_type_ids"] = index(torch.zeros_like(self.mask, dtype=torch.long))
        once = {"return_dict": True, **({"use_cache": False} if "use_cache" in self.names else {})}
        return {**self.values, **once, **per_token}

    def trimmed(self, rows: Int[Tensor, " R"]) -> tuple[Inputs, Int[Tensor, " C"]]:
        """Some texts without the columns that are padding in all of them, and the columns left."""
        used = self.mask[rows].any(0).nonzero()[:, 0]
        columns = torch.arange(int(used[0]), int(used[-1]) + 1, device=rows.device)
        return replace(self, values=self.part(lambda value: value[rows][:, columns])), columns


def _without_index(values: dict[str, Any]) -> dict[str, Any]:
    """Without position_ids that count the real tokens from 0, as `generate` gives them."""
    positions, mask = values.get("position_ids"), values.get("attention_mask")
    if positions is None or (mask is not None and mask.shape != positions.shape):
        return values
    real = torch.ones_like(positions, dtype=torch.bool) if mask is None else mask.bool()
    counted = ((positions == rank(real)) | ~real).all()
    return {**values, "position_ids": None} if counted else values


@dataclass(frozen=True, kw_only=True)
class Part:
    """The outputs of some rows and columns of a batch."""

    rows: Int[Tensor, " R"]
    columns: Int[Tensor, " C"]
    output: Mapping[str, Any]


def short_part(inputs: Inputs, limit: int, read: Read) -> Part:
    """The texts within the limit, read as in a batch in which the others are cut: so to the same bits."""
    mask = inputs.mask
    rows = (mask.sum(-1) <= limit).nonzero()[:, 0]
    length = mask.shape[1]
    for columns in (torch.arange(limit), torch.arange(length - limit, length)):
        here = columns.to(mask.device)
        if int(mask[rows][:, here].sum()) == int(mask[rows].sum()):
            output = read(**inputs.part(lambda value: value[:, here]))  # noqa: B023  called at once
            return Part(rows=rows, columns=here, output=_mapped(output, lambda value: value[rows]))
    raise InputError(
        "attention_mask has a text in the middle of its padding; pad texts on the right or on the left."
    )


def split(tokens: Int[Tensor, " N"], limit: int, special: Special) -> list[Int[Tensor, " W"]]:
    """The fewest windows of a text, of nearly the same length, without overlap; each begins and ends with the
    text's special tokens.

    >>> split(torch.arange(8), 5, (1, 1))
    [tensor([0, 1, 2, 3, 7]), tensor([0, 4, 5, 6, 7])]
    """
    begins, last = special[0], len(tokens) - special[1]
    count = -(-(last - begins) // (limit - sum(special)))
    inner = tokens[begins:last].tensor_split(max(count, 1))
    return [torch.cat([tokens[:begins], window, tokens[last:]]) for window in inner]


def windows_of(inputs: Inputs, row: int, limit: int, special: Special, read: Read) -> Part:
    """One text by windows; outputs of special tokens, and those per text, are means over the windows."""
    begins, ends = special
    real = inputs.mask[row].nonzero()[:, 0]
    windows = split(real, limit, special)
    count = len(windows)
    index = torch.nn.utils.rnn.pad_sequence(windows, batch_first=True, padding_value=int(real[0]))
    lengths = torch.tensor([len(window) for window in windows], device=index.device)
    mask = torch.arange(index.shape[1], device=index.device) < lengths[:, None]
    outputs = []
    for start in range(0, count, WINDOWS):
        group = slice(start, start + WINDOWS)
        values = inputs.part(lambda value: value[row][index[group]])  # noqa: B023  called at once
        outputs.append(read(**{**values, "attention_mask": mask[group].long()}))
    values = {name: torch.cat([output[name] for output in outputs]) for name in _tensors(outputs[0])}

    def whole(value: Tensor) -> Tensor:
        if value.ndim < 3:  # per text
            return value.mean(0, keepdim=True)
        rows = list(zip(value, lengths, strict=True))
        inner = [row[begins : length - ends] for row, length in rows]
        tails = torch.stack([row[length - ends : length] for row, length in rows])
        return torch.cat([value[:, :begins].mean(0), *inner, tails.mean(0)])[None]

    output = type(outputs[0])(**{name: whole(value) for name, value in values.items()})
    return Part(rows=torch.tensor([row], device=real.device), columns=real, output=output)


def joined(parts: Sequence[Part], inputs: Inputs) -> Any:
    """The output of the whole batch: per token (B, T, ...), 0 at padding that no part has, and per text."""
    shape = inputs.mask.shape

    def whole(name: str, value: Tensor) -> Tensor:
        if value.ndim < 3:
            full = value.new_zeros(shape[0], *value.shape[1:])
            for part in parts:
                full[part.rows] = part.output[name]
            return full
        full = value.new_zeros(*shape, *value.shape[2:])
        for part in parts:
            full[part.rows[:, None], part.columns] = part.output[name]
        return full

    first: Any = parts[0].output
    output = type(first)(**{name: whole(name, value) for name, value in _tensors(first).items()})
    return output.to_tuple() if inputs.values.get("return_dict") is False else output


def _mapped(output: Any, change: Callable[[Tensor], Tensor]) -> Any:
    return type(output)(**{name: change(value) for name, value in _tensors(output).items()})


def _tensors(output: Mapping[str, Any]) -> dict[str, Tensor]:
    """The outputs per text or per token, without a loss."""
    return {name: value for name, value in output.items() if isinstance(value, Tensor) and value.ndim > 1}
