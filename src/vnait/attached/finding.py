"""Where position enters a pretrained model: found by structure and by what the model does, not by a list of classes."""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn
from transformers import PreTrainedModel

from vnait.errors import InputError

SUPPORTED = (
    "BERT, RoBERTa, DistilBERT, ELECTRA, GPT-2, Llama, Qwen3, Mistral, ModernBERT and models that are built like them"
)
_TABLE = re.compile(r"(^|_)(wpe|pos|pos_emb\w*|position(s|al)?)(_|$)")
_NO_TABLE = re.compile(r"relative|distance|rel_")


@dataclass(frozen=True, kw_only=True)
class Place:
    """A module inside the owner: the module, its parent, its name there, and its path."""

    path: str
    parent: nn.Module
    key: str
    module: nn.Module

    def put(self, module: nn.Module) -> None:
        """Another module in its place."""
        setattr(self.parent, self.key, module)


@dataclass(frozen=True, kw_only=True)
class Site:
    """A model as `attach` sees it.

    owner    the innermost model that takes `input_ids` and `inputs_embeds`, and its path
    tables   absolute position tables;  rotaries: modules that make cos and sin;  others: sources that can't be replaced
    causal   whether a token sees what precedes it alone
    """

    owner: PreTrainedModel
    path: str
    tables: tuple[Place, ...]
    rotaries: tuple[Place, ...]
    others: tuple[str, ...] = field(default=())
    causal: bool = False

    @property
    def dim(self) -> int:
        """The width of the semantic vectors."""
        return int(self.owner.get_input_embeddings().weight.shape[1])

    @property
    def heads(self) -> int:
        """The number of query heads."""
        return int(self.owner.config.num_attention_heads)


def owner_of(model: nn.Module) -> tuple[str, PreTrainedModel]:
    """The innermost model that takes both `input_ids` and `inputs_embeds`; an error where there is none, or more than one."""
    takers = {path: part for path, part in model.named_modules() if _takes_both(part)}
    inner = {
        path: part
        for path, part in takers.items()
        if not any(other is not part and other in set(part.modules()) for other in takers.values())
    }
    if len(inner) != 1:
        found = f"has {len(inner)} of them ({', '.join(inner)})" if inner else "has none"
        raise InputError(
            f"{type(model).__name__} can't be attached to: exactly one part that takes input_ids and inputs_embeds was expected, "
            f"and it {found}; take one of {SUPPORTED}."
        )
    return next(iter(inner.items()))


def find(model: nn.Module) -> Site:
    """What there is of position in a model, or an error that says what is supported."""
    path, owner = owner_of(model)
    tables = tuple(place for place in places(owner) if _is_table(place, owner))
    rotaries = tuple(place for place in places(owner) if _is_rotary(place.module))
    return Site(
        owner=owner, path=path, tables=tables, rotaries=rotaries, others=_others(owner), causal=looks_back(owner)
    )


def places(owner: nn.Module) -> Iterator[Place]:
    """Every module of the model's own inside, with its parent."""
    for path, module in owner.named_modules():
        if path and path.split(".")[0] != "vnait":
            parent, _, key = path.rpartition(".")
            yield Place(path=path, parent=owner.get_submodule(parent), key=key, module=module)


def _takes_both(part: nn.Module) -> bool:
    if not isinstance(part, PreTrainedModel):
        return False
    try:
        table = part.get_input_embeddings()
    except NotImplementedError:  # words that are hashed, or come as characters
        return False
    return isinstance(table, nn.Embedding) and {"input_ids", "inputs_embeds"} <= set(
        inspect.signature(part.forward).parameters
    )


def _is_table(place: Place, owner: PreTrainedModel) -> bool:
    if not isinstance(place.module, nn.Embedding) or place.module is owner.get_input_embeddings():
        return False
    width = owner.get_input_embeddings().weight.shape[1]
    named = _TABLE.search(place.key) is not None and _NO_TABLE.search(place.path) is None
    return named and place.module.weight.shape[1] == width


def _is_rotary(module: nn.Module) -> bool:
    own = [name for name, _ in module.named_buffers(recurse=False)]
    return any(name.endswith("inv_freq") for name in own)


def _others(owner: nn.Module) -> tuple[str, ...]:
    """Sources of position that live inside the attention or the layers, by name."""
    found = [
        place.path
        for place in places(owner)
        if (isinstance(place.module, nn.Conv1d) and place.module.kernel_size[0] > 1)
        or (isinstance(place.module, nn.Embedding) and _NO_TABLE.search(place.path))
    ]
    if hasattr(owner, "build_alibi_tensor"):
        found.append("build_alibi_tensor")
    return tuple(found)


@contextmanager
def asked(owner: nn.Module) -> Iterator[None]:
    """In evaluation, without gradients; afterwards every module trains as it did."""
    training = {part: part.training for part in owner.modules()}
    owner.eval()
    try:
        with torch.no_grad():
            yield
    finally:
        for part, was in training.items():
            part.training = was


def probe_ids(owner: PreTrainedModel, *shape: int) -> Int[Tensor, "B T"]:
    """The same random ids each time, padding not among them."""
    table = owner.get_input_embeddings().weight
    ids = torch.randint(len(table) - 1, shape, generator=torch.Generator().manual_seed(0))
    pad = getattr(owner.config, "pad_token_id", None)
    return (ids if pad is None else ids + (ids >= pad)).to(table.device)


def states(owner: PreTrainedModel, ids: Int[Tensor, "B T"], **more: Any) -> Float[Tensor, "B T D"]:
    """The last hidden states."""
    with asked(owner):
        more = {"attention_mask": torch.ones_like(ids), **more}
        return owner(input_ids=ids, **more)[0]


def looks_back(owner: PreTrainedModel) -> bool:
    """Whether another last token leaves what the first one became as it is."""
    ids, others = probe_ids(owner, 1, 4), probe_ids(owner, 1, 16)
    other = ids.clone()
    other[0, -1] = others[others != ids[0, -1]][0]
    one, two = states(owner, ids)[:, 0], states(owner, other)[:, 0]
    # Experts work on tokens in groups, and a group's size shows in the last digit.
    nearly = (one - two).abs().max() <= 4 * torch.finfo(one.dtype).eps * one.abs().max()
    says_so = any(getattr(part, "is_causal", False) for part in owner.modules())
    return bool(torch.equal(one, two) or (nearly and says_so))
