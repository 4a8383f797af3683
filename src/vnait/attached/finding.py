"""Where position enters a pretrained model: found by structure and by what the model does, not by a list of classes."""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn
from transformers import PreTrainedModel

from vnait.errors import InputError

SUPPORTED = (
    "BERT, RoBERTa, DistilBERT, ELECTRA, ModernBERT, GPT-2, BLOOM, Llama, Qwen3, Mistral, T5, BART and models that are built like "
    "them, or say where its positions are in vnait.attached.FAMILIES"
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
class Family:
    """Where the positions of a type of models are, for one that structure alone does not tell: paths inside its owner.

    tables     position tables that are read row by row;  rotaries: modules that make cos and sin from `position_ids`
    relatives  attention modules with a learned bias of distances, as T5's

    >>> FAMILIES["my-model"] = Family(tables=("embed.whereabouts",))
    >>> del FAMILIES["my-model"]
    """

    tables: tuple[str, ...] = ()
    rotaries: tuple[str, ...] = ()
    relatives: tuple[str, ...] = ()


FAMILIES: dict[str, Family] = {}  # by `config.model_type`; the types that structure tells need no entry


@dataclass(frozen=True, kw_only=True)
class Site:
    """One side of a model as `attach` sees it.

    owner       the innermost model that takes `input_ids` and `inputs_embeds`, and its path
    tables      absolute position tables;  rotaries: modules that make cos and sin
    relatives   attention modules with a learned bias of distances;  slopes: whether it builds ALiBi's by `build_alibi_tensor`
    others      sources that can't be replaced
    attentions  attention modules that also read another text (cross-attention) or might
    causal      whether a token sees what precedes it alone
    """

    owner: PreTrainedModel
    path: str
    tables: tuple[Place, ...]
    rotaries: tuple[Place, ...]
    relatives: tuple[Place, ...] = ()
    slopes: bool = False
    others: tuple[str, ...] = ()
    attentions: tuple[Place, ...] = ()
    causal: bool = False

    @property
    def dim(self) -> int:
        """The width of the semantic vectors."""
        return int(self.owner.get_input_embeddings().weight.shape[1])

    @property
    def heads(self) -> int:
        """The number of query heads."""
        config = self.owner.config
        own = getattr(config, "decoder_attention_heads", None) if self.causal else None
        heads: int = own or getattr(config, "num_attention_heads", None) or 1
        return heads

    @property
    def own(self) -> tuple[str, ...]:
        """The paths of its sources of position that can be replaced."""
        found = [place.path for place in (*self.tables, *self.rotaries, *self.relatives)]
        return (*found, *(["build_alibi_tensor"] if self.slopes else []))


def owners_of(model: nn.Module) -> dict[str, PreTrainedModel]:
    """By path, the innermost models that take both `input_ids` and `inputs_embeds`: one, or an encoder and a decoder."""
    takers = {path: part for path, part in model.named_modules() if _takes_both(part)}
    inner = {
        path: part
        for path, part in takers.items()
        if not any(other is not part and other in set(part.modules()) for other in takers.values())
    }
    if not 1 <= len(inner) <= 2:
        found = f"has {len(inner)} of them ({', '.join(inner)})" if inner else "has none"
        raise InputError(
            f"{type(model).__name__} can't be attached to: a part that takes input_ids and inputs_embeds was expected, or an encoder "
            f"and a decoder, and it {found}; take one of {SUPPORTED}."
        )
    return inner


def find(model: nn.Module) -> tuple[Site, ...]:
    """What there is of position in a model, an encoder's first, or an error that says what is supported."""
    sites = sorted((_site(path, owner) for path, owner in owners_of(model).items()), key=lambda site: site.causal)
    if len(sites) == 2 and [site.causal for site in sites] != [False, True]:
        kind = "decoders" if sites[0].causal else "encoders"
        raise InputError(f"{type(model).__name__} can't be attached to: it has two {kind}; take one of {SUPPORTED}.")
    return tuple(sites)


def _site(path: str, owner: PreTrainedModel) -> Site:
    own = list(places(owner))
    family = FAMILIES.get(owner.config.model_type)
    if family is None:
        tables = [place for place in own if _is_table(place, owner)]
        rotaries = [place for place in own if _is_rotary(place.module)]
        relatives = [place for place in own if _is_relative(place.module)]
    else:
        by_path = {place.path: place for place in own}
        if missing := [name for name in (*family.tables, *family.rotaries, *family.relatives) if name not in by_path]:
            raise InputError(
                f"{type(owner).__name__} has no {missing[0]}, which vnait.attached.FAMILIES[{owner.config.model_type!r}] names; "
                "give paths inside the part that takes input_ids."
            )
        tables, rotaries, relatives = (
            [by_path[name] for name in names] for names in (family.tables, family.rotaries, family.relatives)
        )
    return Site(
        owner=owner,
        path=path,
        tables=tuple(tables),
        rotaries=tuple(rotaries),
        relatives=tuple(relatives),
        slopes=hasattr(owner, "build_alibi_tensor"),
        others=_others(own, relatives),
        attentions=tuple(place for place in own if _takes(place.module, "key_value_states")),
        causal=looks_back(owner),
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
    return isinstance(table, nn.Embedding) and _takes(part, "input_ids", "inputs_embeds")


def _takes(part: nn.Module, *names: str) -> bool:
    return set(names) <= set(inspect.signature(part.forward).parameters)


def _is_table(place: Place, owner: PreTrainedModel) -> bool:
    if not isinstance(place.module, nn.Embedding) or place.module is owner.get_input_embeddings():
        return False
    width = owner.get_input_embeddings().weight.shape[1]
    named = _TABLE.search(place.key) is not None and _NO_TABLE.search(place.path) is None
    return named and place.module.weight.shape[1] == width


def _is_rotary(module: nn.Module) -> bool:
    own = [name for name, _ in module.named_buffers(recurse=False)]
    return any(name.endswith("inv_freq") for name in own)


def _is_relative(module: nn.Module) -> bool:
    """T5's attention with a table of its own; its siblings without one get their bias from it."""
    return (
        isinstance(getattr(module, "relative_attention_bias", None), nn.Embedding)
        and hasattr(module, "_relative_position_bucket")
        and _takes(module, "position_bias", "key_value_states")
    )


def _others(own: list[Place], relatives: list[Place]) -> tuple[str, ...]:
    """Sources of position that live inside the attention or the layers, by name."""
    replaced = {place.module.relative_attention_bias for place in relatives}
    return tuple(
        place.path
        for place in own
        if (isinstance(place.module, nn.Conv1d) and place.module.kernel_size[0] > 1)
        or (isinstance(place.module, nn.Embedding) and _NO_TABLE.search(place.path) and place.module not in replaced)
    )


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
    """The last hidden states, in the model's own numbers under autocast too: what is asked of them is often whether two are equal."""
    with asked(owner), torch.autocast(ids.device.type, enabled=False):
        more = {"attention_mask": torch.ones_like(ids), **more}
        try:
            found: Tensor = owner(input_ids=ids, **more)[0]
        except InputError:
            raise
        except Exception as error:  # of any model there is
            raise InputError(
                f"{type(owner).__name__} can't be attached to: it could not read a random text ({type(error).__name__}: {error}); take one "
                f"of {SUPPORTED}."
            ) from error
        return found


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
