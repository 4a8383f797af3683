"""Find where position enters a pretrained model, by its structure and by running it, not by its class."""

import inspect
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn
from transformers import PreTrainedModel

from vnait.pretrained.images import Patches, patches_of, permuted, random_images
from vnait.pretrained.layers import (
    ENCODER_STATES,
    BiasGiven,
    PlacesGiven,
    SilencedTable,
    parent_of,
    rows_of,
)
from vnait.pretrained.windows import order_within, window_of
from vnait.shared.errors import InputError
from vnait.shared.randomness import evaluating

SUPPORTED = (
    "BERT, RoBERTa, DistilBERT, ELECTRA, ModernBERT, GPT-2, BLOOM, Llama, Qwen3, Mistral, T5, BART, ViT and "
    "similar models, or describe where its positions are in vnait.pretrained.FAMILIES"
)
_TABLE = re.compile(r"(^|_)(wpe|pos|pos_emb\w*|position(s|al)?)(_|$)")
WORDS = 8192  # whose vectors are computed at once
_RELATIVE = re.compile(r"relative|distance|rel_")


@dataclass(frozen=True, kw_only=True)
class Submodule:
    """A module inside the owner, its parent, its name there (`key`), and its path."""

    path: str
    parent: nn.Module
    key: str
    module: nn.Module

    def replace(self, module: nn.Module) -> None:
        setattr(self.parent, self.key, module)


@dataclass(frozen=True, kw_only=True)
class Family:
    """Where the positions of a model type are, if structure does not show it: paths inside its owner.

    tables     position tables that are read row by row
    rotaries   modules that compute cos and sin from `position_ids`
    relatives  attention modules with a learned distance bias, as T5's
    refused    why no method can be attached, as the end of a sentence; structure shows the rest

    >>> FAMILIES["my-model"] = Family(tables=("embed.whereabouts",))
    >>> del FAMILIES["my-model"]
    """

    tables: tuple[str, ...] = ()
    rotaries: tuple[str, ...] = ()
    relatives: tuple[str, ...] = ()
    refused: str = ""


FAMILIES: dict[str, Family] = {  # by `config.model_type`, for types that structure does not show
    "longt5": Family(
        refused="its encoder adds one bias of distances to all blocks of a text, and a method's places have "
        "other distances in every block"
    ),
}


@dataclass(frozen=True, kw_only=True)
class Site:
    """One side of a model as `attach` sees it.

    owner       innermost model that takes `input_ids` and `inputs_embeds`, or images in patches, at `path`
    tables      absolute position tables
    rotaries    modules that compute cos and sin
    relatives   attention modules with a learned distance bias
    turning     tables of sines for rotations inside the attention, or attention modules with one
    alibi       whether it builds ALiBi's bias by `build_alibi_tensor`
    inside      paths of sources of position that can't be replaced
    attentions  attention modules that accept another text (cross-attention)
    cross_attentions   those that get it from every layer, by a name in ENCODER_STATES
    causal      whether a token depends on earlier ones only
    patches     how an image becomes tokens, with a table of position; None in texts
    """

    owner: PreTrainedModel
    path: str
    tables: tuple[Submodule, ...]
    rotaries: tuple[Submodule, ...]
    relatives: tuple[Submodule, ...]
    turning: tuple[Submodule, ...]
    alibi: bool
    inside: tuple[str, ...]
    attentions: tuple[Submodule, ...]
    cross_attentions: tuple[Submodule, ...]
    causal: bool
    patches: Patches | None = None

    @property
    def dim(self) -> int:
        """Width of the semantic vectors."""
        return next(self._vectors()).shape[-1]

    @property
    def mean_square(self) -> float:
        """Of all numbers of the semantic vectors of every word, or of the patches of random images."""
        sums = [(float(part.float().square().sum()), part.numel()) for part in self._vectors()]
        total, count = map(sum, zip(*sums, strict=True))
        return total / count

    @torch.no_grad()
    def _vectors(self) -> Iterator[Float[Tensor, "*any D"]]:
        """Some semantic vectors after others, since all would take as much memory as the model's table."""
        embeddings = self.owner.get_input_embeddings()
        if self.patches is not None:
            cut = self.owner.get_submodule(f"{self.patches.path}.patch_embeddings")
            yield cut(random_images(self.owner, self.patches, 2))
            return
        weight = embeddings.weight
        # Through `forward`: some models scale their vectors there.
        for ids in torch.arange(len(weight), device=weight.device).split(WORDS):
            yield embeddings(ids)

    @property
    def heads(self) -> int:
        config = self.owner.config
        of_decoder = getattr(config, "decoder_attention_heads", None) if self.causal else None
        heads: int = of_decoder or getattr(config, "num_attention_heads", None) or 1
        return heads

    @property
    def rotates(self) -> bool:
        """Whether the model's own position is a rotation."""
        return bool(self.rotaries or self.turning)

    @property
    def sources(self) -> tuple[str, ...]:
        """Paths inside the owner of its sources of position that can be replaced."""
        paths = [part.path for part in (*self.tables, *self.rotaries, *self.relatives, *self.turning)]
        paths += [] if self.patches is None else [f"{self.patches.path}.position_embeddings"]
        return (*paths, *(["build_alibi_tensor"] if self.alibi else []))

    @property
    def replaced(self) -> tuple[str, ...]:
        """`sources` as paths inside the whole model."""
        return tuple(f"{self.path}.{path}".removeprefix(".") for path in self.sources)


def owners_of(model: nn.Module) -> dict[str, PreTrainedModel]:
    """Path -> innermost model that takes `input_ids` and `inputs_embeds`: one, or encoder and decoder; or, if
    there is none, that reads images in patches.
    """
    candidates = {path: part for path, part in model.named_modules() if _reads_ids_or_vectors(part)}
    candidates = candidates or {path: part for path, part in model.named_modules() if patches_of(part)}
    inner = {
        path: part
        for path, part in candidates.items()
        if not any(inside is not part and inside in set(part.modules()) for inside in candidates.values())
    }
    if not 1 <= len(inner) <= 2:
        has = f"has {len(inner)} of them ({', '.join(inner)})" if inner else "has none"
        raise InputError(
            f"{type(model).__name__} can't be attached to: a part that takes input_ids and inputs_embeds "
            f"was expected, or an encoder and a decoder, or one that reads images in patches by a position "
            f"table of its own, and it {has}; take one of {SUPPORTED}."
        )
    return inner


def find_sites(model: nn.Module) -> tuple[Site, ...]:
    """The sides of a model, the encoder first; `InputError` if it is of another kind."""
    sites = sorted(
        (_site(path, owner) for path, owner in owners_of(model).items()), key=lambda site: site.causal
    )
    if len(sites) == 2 and [site.causal for site in sites] != [False, True]:
        kind = "decoders" if sites[0].causal else "encoders"
        raise InputError(
            f"{type(model).__name__} can't be attached to: it has two {kind}; take one of {SUPPORTED}."
        )
    return tuple(sites)


def rotaries_of(owner: nn.Module) -> list[Submodule]:
    """The modules that compute cosines and sines of places."""
    return [part for part in _submodules(owner) if _is_rotary(part.module)]


def _site(path: str, owner: PreTrainedModel) -> Site:
    parts = list(_submodules(owner))
    family = FAMILIES.get(owner.config.model_type)
    if family is None or family.refused:
        tables = [part for part in parts if _is_table(part, owner)]
        rotaries = [part for part in parts if _is_rotary(part.module)]
        relatives = [part for part in parts if _is_relative(part.module)]
    else:
        by_path = {part.path: part for part in parts}
        names = (family.tables, family.rotaries, family.relatives)
        if missing := [name for paths in names for name in paths if name not in by_path]:
            raise InputError(
                f"{type(owner).__name__} has no {missing[0]}, which "
                f"vnait.pretrained.FAMILIES[{owner.config.model_type!r}] names; "
                "give paths inside the part that takes input_ids."
            )
        tables, rotaries, relatives = ([by_path[name] for name in paths] for paths in names)
    replaceable = {part.module.relative_attention_bias for part in relatives}
    return Site(
        owner=owner,
        path=path,
        tables=tuple(tables),
        rotaries=tuple(rotaries),
        relatives=tuple(relatives),
        turning=tuple(_turning(parts)),
        alibi=hasattr(owner, "build_alibi_tensor"),
        inside=tuple(part.path for part in parts if part.module not in replaceable and _is_inside(part)),
        attentions=tuple(part for part in parts if _is_attention(part.module)),
        cross_attentions=tuple(_reading_another_text(parts)),
        causal=is_causal(owner),
        patches=patches_of(owner),
    )


def _submodules(owner: nn.Module) -> Iterator[Submodule]:
    """Every module of the model itself, without what is attached."""
    for path, module in owner.named_modules():
        if path and path.split(".")[0] != "vnait":
            parent, _, key = path.rpartition(".")
            yield Submodule(path=path, parent=owner.get_submodule(parent), key=key, module=module)


def _reads_ids_or_vectors(part: nn.Module) -> bool:
    if not isinstance(part, PreTrainedModel):
        return False
    try:
        table = part.get_input_embeddings()
    except NotImplementedError:  # models of hashed words or characters
        return False
    return isinstance(table, nn.Embedding) and accepts(part, "input_ids", "inputs_embeds")


def accepts(part: nn.Module, *names: str) -> bool:
    """Whether a part's forward takes arguments of these names."""
    return set(names) <= set(inspect.signature(part.forward).parameters)


def _is_table(part: Submodule, owner: PreTrainedModel) -> bool:
    words: Any = owner.get_input_embeddings()
    rows = rows_of(part.module)
    if rows is None or part.module is words:
        return False
    named = _TABLE.search(part.key) is not None and _RELATIVE.search(part.path) is None
    widths = words.weight.shape[1], getattr(owner.config.get_text_config(), "hidden_size", None)
    return named and rows.shape[1] in widths  # OPT may have narrower words, which it projects


def _is_rotary(module: nn.Module) -> bool:
    return any(name.endswith("inv_freq") for name, _ in module.named_buffers(recurse=False))


def _is_relative(module: nn.Module) -> bool:
    """T5's attention with a table of its own, from which other layers get their bias; each of UMT5's."""
    return (
        isinstance(getattr(module, "relative_attention_bias", None), nn.Embedding)
        and hasattr(module, "_relative_position_bucket")
        and (accepts(module, "position_bias", "key_value_states") or _computes_bias(module))
    )


def _reading_another_text(parts: Sequence[Submodule]) -> Iterator[Submodule]:
    """The innermost modules that take an encoder's states, such as BERT's cross-attention."""
    readers = [part for part in parts if any(accepts(part.module, name) for name in ENCODER_STATES)]
    for part in readers:
        inner = any(reader.path.startswith(f"{part.path}.") for reader in readers)
        if not inner and not _is_attention(part.module):  # `pre_attention` sees to those
            yield part


def _computes_bias(module: nn.Module) -> bool:
    return parent_of(module) is BiasGiven


def _is_attention(module: nn.Module) -> bool:
    positional = parent_of(module) is not None or _turns(module)
    return positional or accepts(module, "key_value_states")


def _turns(module: nn.Module) -> bool:
    """RoFormer's attention, which rotates by the sines that it gets."""
    return hasattr(module, "apply_rotary_position_embeddings") and accepts(module, "sinusoidal_pos")


def _turning(parts: Sequence[Submodule]) -> Iterator[Submodule]:
    """RoFormer's table, or GPT-J's attention modules."""
    turned = any(_turns(part.module) for part in parts)
    for part in parts:
        table = isinstance(part.module, nn.Embedding | SilencedTable) and _TABLE.search(part.key)
        if (turned and table) or parent_of(part.module) is PlacesGiven:
            yield part


def _is_inside(part: Submodule) -> bool:
    """Whether it is a source of position inside the layers: a convolution, or a table of distances."""
    if isinstance(part.module, nn.Conv1d):
        return part.module.kernel_size[0] > 1
    return isinstance(part.module, nn.Embedding) and _RELATIVE.search(part.path) is not None


def probe_ids(owner: PreTrainedModel, *shape: int) -> Int[Tensor, "B T"]:
    """Random ids without padding, the same on every call."""
    table = owner.get_input_embeddings().weight
    ids = torch.randint(len(table) - 1, shape, generator=torch.Generator().manual_seed(0))
    pad = getattr(owner.config, "pad_token_id", None)
    return (ids if pad is None else ids + (ids >= pad)).to(table.device)


def probe(owner: PreTrainedModel, rows: int, length: int) -> Tensor:
    """Random texts as ids (B, T), or random images of the model's own size as pixels."""
    patches = patches_of(owner)
    return probe_ids(owner, rows, length) if patches is None else random_images(owner, patches, rows)


def shuffled(owner: PreTrainedModel, read: Tensor) -> Tensor:
    """The first text of 6 tokens, or the images, with tokens in another order; the last stays.

    Within the window of the first layer: what enters it shows the order of the tokens by itself.
    """
    patches = patches_of(owner)
    return read[:, order_within(window_of(owner.config, 0))] if patches is None else permuted(read, patches)


def last_states(owner: PreTrainedModel, read: Tensor, **inputs: Any) -> Float[Tensor, "B T D"]:
    """The last hidden states of ids or pixels, in the model's own precision under autocast too: they are
    compared exactly.
    """
    if patches_of(owner):
        inputs = {"pixel_values": read}
    else:
        inputs = {"input_ids": read, "attention_mask": torch.ones_like(read), **inputs}
    with evaluating(owner), torch.autocast(read.device.type, enabled=False):
        try:
            states: Tensor = owner(**inputs)[0]
        except InputError:
            raise
        except Exception as error:  # any model may raise anything
            raise InputError(
                f"{type(owner).__name__} can't be attached to: it could not read a random text or image "
                f"({type(error).__name__}: {error}); take one of {SUPPORTED}."
            ) from error
        return states


def is_causal(owner: PreTrainedModel) -> bool:
    """Whether another last token leaves the first token's state unchanged; patches are read at once."""
    if patches_of(owner):
        return False
    ids, others = probe_ids(owner, 1, 4), probe_ids(owner, 1, 16)
    changed = ids.clone()
    changed[0, -1] = others[others != ids[0, -1]][0]
    before, after = last_states(owner, ids)[:, 0], last_states(owner, changed)[:, 0]
    # Experts process tokens in groups, and the size of a group shows in the last digit.
    nearly = (before - after).abs().max() <= 4 * torch.finfo(before.dtype).eps * before.abs().max()
    declared = any(getattr(part, "is_causal", False) for part in owner.modules())
    # BLIP's text model is causal only if the model around it asks for that.
    decodes = getattr(owner.config, "is_decoder", False)
    return bool(decodes or torch.equal(before, after) or (nearly and declared))


class _Read(Exception):
    """Stops a model once it has read its position table."""


def first_row(owner: nn.Module, table: nn.Module) -> int:
    """The row that the first token of a text reads, found by running the model: 0, or one past padding's.

    -1 if the model does not read consecutive rows.
    """
    outputs: list[Tensor] = []
    rows = rows_of(table)
    assert rows is not None

    def stop(module: nn.Module, args: object, output: Tensor) -> None:
        outputs.append(output.reshape(-1, rows.shape[1]))
        raise _Read

    handle = table.register_forward_hook(stop)
    try:
        with evaluating(owner):
            owner(input_ids=probe_ids(owner, 1, min(4, len(rows) // 2 + 1)))
    except _Read:
        (read,) = outputs
        for first in range(len(rows) - len(read) + 1):
            if torch.equal(rows[first : first + len(read)].to(read), read):
                return first
    finally:
        handle.remove()
    return -1
