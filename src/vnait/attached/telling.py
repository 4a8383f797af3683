"""What is attached: a module inside the model, and the hook that lets it speak before the model does."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any, NamedTuple, Self

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn
from transformers import DynamicCache, EncoderDecoderCache, PreTrainedModel
from transformers.cache_utils import Cache

from vnait.attached.crossing import Between, Source, Target
from vnait.attached.inside import NAME, TURN, Carried
from vnait.attached.old import Rows, Waves, running, within
from vnait.cache import remembered
from vnait.coordinates.shared import rank
from vnait.errors import InputError
from vnait.method import Method

Vectors = Float[Tensor, "B T D"]
Mask = Bool[Tensor, "B T"]


class Given(NamedTuple):
    """What the model gets: its input, the places that its rotation or its own bias goes by, a bias of its scores, angles."""

    x: Vectors
    places: Float[Tensor, "B T"]
    bias: Float[Tensor, "B H T T"] | None
    turn: Float[Tensor, "B T K_half"] | None


class Attached(nn.Module):
    """x = e + old(p) + gate * (method(e) - e), with gate = 0 at first; or x = method(e), where nothing is taken over.

    old     the model's own position table, read at real places p (`running`); None where it has none, or in a cold start
    gate    (D,), learned from 0; None in a cold start
    turns   what the model's rotation turns by, or its own bias of distances goes by: "coordinates" the method's, "running" p,
            "nothing" 0; None where it has neither
    crossing    position in cross-attention (`crossing`), of a decoder that has one
    attention   the model's own, where it was exchanged for one that turns queries and keys by the method's angles; it has no rotation
    inner   whether attention modules are told by the hook before them (`inside`);  slopes: whether the mask tells ALiBi's places
    loud    the root mean square of the model's vectors, as a power of two: the method is made for vectors of 1, and
            such a factor rounds nothing

    Computed in float32 at least, whatever the model's precision.
    """

    def __init__(
        self,
        *,
        method: Method,
        old: Rows | Waves | None,
        warm: bool,
        turns: str | None,
        owner: PreTrainedModel,
        first: int = 0,
        causal: bool = False,
        biased: bool = False,
        attention: str | None = None,
        crossing: Source | Target | Between | None = None,
        inner: bool = False,
        slopes: bool = False,
    ) -> None:
        super().__init__()
        self.method, self.old, self.crossing = method, old, crossing
        embeddings = owner.get_input_embeddings()
        with torch.no_grad():  # asked, since some are scaled on their way
            table = embeddings(torch.arange(len(embeddings.weight), device=embeddings.weight.device)).float()
        self.loud = 2.0 ** round(float(table.square().mean().clamp(min=1e-12).sqrt().log2()))
        self.gate = nn.Parameter(torch.zeros(table.shape[1], device=table.device)) if warm else None
        self.turns, self.first, self.causal = turns, first, causal
        self.biased, self.attention, self.inner, self.slopes = biased, attention, inner, slopes
        self.recipe: object = None  # what `attach` was called with, for `save_adapter`
        self.silent = False  # for `audit`: all coordinates at zero, nothing told
        self.names = tuple(inspect.signature(owner.forward).parameters)
        self.types = any(name.endswith("token_type_ids") for name, _ in owner.named_buffers())

    def forward(self, vectors: Vectors, mask: Mask) -> Given:
        e = vectors.to(torch.promote_types(vectors.dtype, torch.float32))
        nowhere = torch.zeros(mask.shape, device=mask.device)
        if self.silent:
            return Given(vectors, nowhere, None, None)
        told = self.method(e / self.loud, mask)
        x = told.x * self.loud
        if self.gate is not None:
            x = e + self.gate * (x - e)
        here = running(self.method.coordinates, e / self.loud, mask) if self.reads_old else nowhere
        if self.old is not None:
            # A decoder can't know how long the text will be, and stays at the table's last row.
            row = here if self.causal else within(here, mask, self.old.max_length - 1)
            x = x + self.old.read(row).to(x.dtype)
        places = told.at[..., 0] if self.turns == "coordinates" else here if self.turns == "running" else nowhere
        turn = told.injection.turn if self.turned else None
        return Given(x.to(vectors.dtype), places, told.injection.dense().bias, turn)

    def _apply(self, fn: Callable[[Tensor], Tensor], recurse: bool = True) -> Self:
        """Moved with the model, but never to fewer bits than float32: places are sums, and the method's formula is computed there."""

        def kept(tensor: Tensor) -> Tensor:
            moved = fn(tensor)
            return moved if torch.promote_types(moved.dtype, torch.float32) == moved.dtype else tensor.to(moved.device)

        return super()._apply(kept, recurse)

    @property
    def turned(self) -> bool:
        """Whether queries and keys are turned by the method's angles."""
        return self.attention is not None

    @property
    def reads_old(self) -> bool:
        """Whether the model's own positions are read, at places that may be learned."""
        return self.old is not None or self.turns == "running"

    def extra_repr(self) -> str:
        return f"loud={self.loud:g}, turns={self.turns!r}"


def tell(
    owner: PreTrainedModel, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> tuple[tuple[()], dict[str, Any]] | None:
    """The hook before the owner's forward: its ids become vectors with a position in them."""
    attached: Attached = owner.vnait
    named = {**dict(zip(attached.names, args, strict=False)), **kwargs}
    ids, vectors = named.get("input_ids"), named.get("inputs_embeds")
    if (ids is None) == (vectors is None):
        return None  # the model's own error says so
    vectors = owner.get_input_embeddings()(ids) if vectors is None else vectors
    if vectors.ndim != 3:
        raise InputError(
            f"an attached model was given vectors of shape {tuple(vectors.shape)}; give (sentences, tokens, width)."
        )
    _check_run(owner, attached)
    cache = _cache(owner, attached, named)
    past = 0 if cache is None else int(cache.get_seq_length())
    length = past + vectors.shape[1]
    mask = _whole_mask(named.get("attention_mask"), vectors.shape[0], length, vectors.device)
    _check_places(named.get("position_ids"), mask, attached.first)
    layers = owner.config.num_hidden_layers
    whole = vectors if cache is None else remembered(cache, vectors, mask[:, past:], layers=layers)[0]
    x, places, bias, turn = attached(whole, mask)
    bias = None if bias is None else bias[:, :, past:].to(vectors.dtype)
    named |= {"input_ids": None, "inputs_embeds": x[:, past:]}
    if "position_ids" in attached.names:
        count = torch.arange(past, length, device=vectors.device).expand(vectors.shape[0], -1)
        named["position_ids"] = count if attached.turns is None else places[:, past:]
    if attached.turns is not None and named.get("attention_mask") is None:
        named["attention_mask"] = mask.long()  # without one, places that aren't 0, 1, 2 ... would pass for packed texts
    if attached.types and named.get("token_type_ids") is None:
        named["token_type_ids"] = torch.zeros(vectors.shape[:2], dtype=torch.long, device=vectors.device)
    if attached.slopes:
        named["attention_mask"] = (places + 1) * mask
    if turn is not None:
        named[TURN] = turn
    if attached.inner:
        named[NAME] = _crossed(attached, named, Carried(places, bias), whole, mask, past)
    elif bias is not None:
        named["position_bias"] = bias
    return (), named


def _crossed(
    attached: Attached, named: dict[str, Any], told: Carried, whole: Vectors, mask: Mask, past: int
) -> Carried:
    """What cross-attention is told besides, where there is another text to read; the source's states are told here."""
    part, states = attached.crossing, named.get("encoder_hidden_states")
    if part is None or states is None or attached.silent:
        return told
    given = named.get("encoder_attention_mask")
    source = torch.ones(states.shape[:2], dtype=torch.bool, device=states.device) if given is None else given.bool()
    if isinstance(part, Source):
        named["encoder_hidden_states"] = part(states, source)
        return told
    if isinstance(part, Target):
        return told._replace(queries=part(whole / attached.loud, mask)[:, past:])
    return told._replace(crossing=part(mask, source)[:, :, past:].to(whole.dtype))


def _cache(owner: PreTrainedModel, attached: Attached, named: dict[str, Any]) -> Cache | None:
    """The cache of keys and values that this run fills; made here where the model would make one, so that it has the words too."""
    if not attached.causal or "past_key_values" not in attached.names:
        return None
    cache = named.get("past_key_values")
    if cache is None:
        wanted = named.get("use_cache")
        wanted = owner.config.use_cache if wanted is None else wanted
        if not wanted or _recomputes(owner):
            return None
        cache = DynamicCache(config=owner.config)
        if owner.config.is_encoder_decoder:
            cache = EncoderDecoderCache(cache, DynamicCache(config=owner.config))
        named["past_key_values"] = cache
    cache = cache.self_attention_cache if isinstance(cache, EncoderDecoderCache) else cache
    if not isinstance(cache, Cache) or not hasattr(cache, "layers"):
        raise InputError(f"an attached model was given a {type(cache).__name__} as its cache; give a DynamicCache.")
    return cache


def _whole_mask(given: Any, rows: int, length: int, device: torch.device) -> Mask:
    """Which tokens are real, the past's among them."""
    if given is None:
        return torch.ones(rows, length, dtype=torch.bool, device=device)
    if not isinstance(given, Tensor) or given.ndim != 2:
        shape = tuple(given.shape) if isinstance(given, Tensor) else type(given).__name__
        raise InputError(
            f"an attached model was given an attention_mask of {shape}; give (sentences, tokens), 1 at real tokens, from which it "
            "counts them (for generate: a cache that grows, cache_implementation='dynamic')."
        )
    if given.shape[1] != length:
        raise InputError(
            f"an attached model was given an attention_mask of {given.shape[1]} tokens for a text of {length}; give one number a "
            "token, those in the cache first."
        )
    return given.bool().expand(rows, length)


def _check_places(given: Int[Tensor, "B T"] | None, mask: Mask, first: int) -> None:
    """A method counts the tokens itself: `position_ids` may say the same, as generate's do, and nothing else."""
    if given is None or torch.compiler.is_compiling():
        return
    real = mask[:, -given.shape[-1] :]
    apart = (given - rank(mask)[:, -given.shape[-1] :])[real]
    if not ((apart == 0).all() or (apart == first).all()):
        raise InputError(
            "an attached model was given position_ids that aren't the tokens' numbers; its method counts the tokens of attention_mask "
            "itself, so leave position_ids out, and give packed texts one by one."
        )


def _check_run(owner: PreTrainedModel, attached: Attached) -> None:
    """Settings that may have changed since the method was attached, and would go wrong without a word."""
    kind = owner.config._attn_implementation
    if attached.turned and kind != TURN:
        raise InputError(
            f'{kind} attention would not turn by the method; call model.set_attn_implementation("{TURN}").'
        )
    if attached.biased and kind not in ("sdpa", TURN):
        raise InputError(
            f'{kind} attention would ignore the method\'s bias; call model.set_attn_implementation("sdpa").'
        )
    if attached.turns is None or not _recomputes(owner):
        return
    again = (getattr(part, "_gradient_checkpointing_func", None) for part in owner.modules())
    if any(getattr(function, "keywords", {}).get("use_reentrant") for function in again):
        raise InputError(
            "reentrant gradient checkpointing loses the gradient of learned places inside the layers; call "
            'model.gradient_checkpointing_enable({"use_reentrant": False}).'
        )


def _recomputes(owner: PreTrainedModel) -> bool:
    """Whether it trains with gradient checkpointing."""
    return owner.training and any(getattr(part, "gradient_checkpointing", False) for part in owner.modules())
