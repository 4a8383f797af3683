"""What `attach` puts into a pretrained model: modules in place of its own position modules; inside the
layers, the method's bias and angles, the model's own distance bias at real places, and cross-attention;
parents of the classes of parts that compute position themselves.
"""

import inspect
import threading
from collections.abc import Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Any, NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor, nn
from transformers import AttentionInterface, AttentionMaskInterface
from transformers.masking_utils import ALL_MASK_ATTENTION_FUNCTIONS
from transformers.modeling_utils import ALL_ATTENTION_FUNCTIONS

from vnait.positions.attention import rotate
from vnait.positions.cache import Vectors
from vnait.positions.encodings.bias_tables import of_buckets
from vnait.shared.errors import InputError

Bias = Float[Tensor, "B H T TK"]
ATTENTION_INPUTS = "vnait"  # keyword that carries `AttentionInputs` from the model to its attention modules
ENCODER_STATES = "encoder_hidden_states", "cross_attention_states"  # names of an encoder's states in layers
MOVING = {"dynamic", "longrope"}  # scalings of rotations whose frequencies depend on the text's length
ROTARY = "vnait_rotary"  # keyword that carries angles, and name of the attention that rotates by them


class ThreadValue(threading.local):
    """A value of this thread, None outside `holding`."""

    value: Any = None

    @contextmanager
    def holding(self, value: Any) -> Iterator[None]:
        before, self.value = self.value, value
        try:
            yield
        finally:
            self.value = before


_reading = ThreadValue()  # True while an attached model's forward runs, which has given it its positions


def reading() -> AbstractContextManager[None]:
    """An attached model's forward, which has given the model its positions."""
    return _reading.holding(True)


def check_reading(part: str) -> None:
    """Raise `InputError` outside `reading`: nothing else gives an attached model its positions."""
    if not _reading.value:
        raise InputError(
            f"{part} was called without the attached model's forward, so this call lacks the method's "
            "positions; call the model itself, attach before its forward is replaced, or call "
            "vnait.detach(model)."
        )


def rows_of(module: nn.Module) -> Float[Tensor, "N D"] | None:
    """The rows of a table: of an embedding, or sines in a buffer, as XGLM's."""
    if isinstance(module, nn.Embedding):
        return module.weight
    rows = module._buffers.get("weights")
    return rows if rows is not None and rows.ndim == 2 else None


class SilencedTable(nn.Module):
    """A position table that returns zeros. Its frozen weight keeps its key in the state dict.

    Raises:
        InputError: it was not called by an attached model's forward.

    >>> import torch
    >>> with reading():
    ...     SilencedTable(nn.Embedding(8, 2))(torch.tensor([[99]]))
    tensor([[[0., 0.]]])
    """

    weight: Tensor

    def __init__(self, table: nn.Module) -> None:
        super().__init__()
        rows = rows_of(table)
        assert rows is not None
        self.learned = rows.requires_grad
        if isinstance(rows, nn.Parameter):
            self.weight = rows.requires_grad_(False)
        else:
            self.register_buffer("weight", rows, persistent=False)
        self._table = (table,)  # in a tuple: a submodule would add keys to the state dict

    def forward(self, *args: Any, **kwargs: Any) -> Float[Tensor, "1 1 D"]:
        """Zeros for any ids, also past the last row; the sum broadcasts."""
        check_reading("the silenced position table")
        return self.weight.new_zeros(1, 1, self.weight.shape[1])

    def original(self, learned: bool = True) -> nn.Module:
        """The table, learned again if it was; not if its model was frozen meanwhile, `learned` = False."""
        (table,) = self._table
        name = "weight" if isinstance(table, nn.Embedding) else "weights"
        setattr(table, name, self.weight.requires_grad_(self.learned and learned))
        return table

    def extra_repr(self) -> str:
        return f"{self.weight.shape[0]} rows"


class DifferentiableRotary(nn.Module):
    """A model's own rotary module with gradients: transformers runs it under `no_grad`, so places could not
    be learned.

    Layout, base and scaling stay: it calls the original forward without the `no_grad` decorator.
    """

    def __init__(self, rotary: nn.Module) -> None:
        super().__init__()
        self.rotary = rotary

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        positions = kwargs.get("position_ids", args[1] if len(args) > 1 else None)
        if positions is None or not positions.is_floating_point():  # also if a checkpoint is computed again
            check_reading("the model's rotation")
        length = original_length(self.rotary)
        if length is not None and positions is not None and positions.max() + 1 > length:
            raise InputError(
                f"the frequencies of this model's rotation follow the longest text of a call past {length} "
                "tokens, so that results with a cache and beside other texts would differ; cut texts at "
                f"{length} tokens, or load it with other rope_parameters, such as yarn."
            )
        forward = type(self.rotary).forward
        return getattr(forward, "__wrapped__", forward)(self.rotary, *args, **kwargs)

    def original(self, learned: bool = True) -> nn.Module:
        """The module without the wrapper."""
        return self.rotary


def original_length(rotary: Any) -> int | None:
    """The length past which frequencies follow the longest place of a call; None if they never do.

    >>> original_length(nn.Identity()) is None
    True
    """
    kinds = getattr(rotary, "rope_type", "default")
    moving = MOVING & (set(kinds.values()) if isinstance(kinds, dict) else {kinds})
    if not moving:
        return None
    parameters = rotary.config.rope_parameters
    layers = [layer for layer in parameters.values() if isinstance(layer, dict)]
    declared = [layer.get("original_max_position_embeddings") for layer in (parameters, *layers)]
    built = getattr(rotary, "original_max_seq_len", None)
    lengths = declared if "longrope" in moving else [built]
    return min((int(length) for length in lengths if length), default=built)


class AttentionInputs(NamedTuple):
    """Inputs of all attention modules in one run.

    places      of past and new tokens, for the model's own distance bias
    bias        of the method, for the new queries
    queries     added to the inputs of cross-attention's queries
    cross_bias  bias of cross-attention's scores
    """

    places: Float[Tensor, "B T"]
    bias: Bias | None = None
    queries: Float[Tensor, "B TQ D"] | None = None
    cross_bias: Bias | None = None


def pre_attention(
    attention: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> tuple[tuple[Any, ...], dict[str, Any]] | None:
    """Hook before an attention module: set its `position_bias`, and in cross-attention move its queries."""
    if ATTENTION_INPUTS not in kwargs:
        if getattr(attention, "has_relative_attention_bias", False):
            check_reading("the model's bias of distances")
        return None
    shared: AttentionInputs = kwargs.pop(ATTENTION_INPUTS)
    states: Tensor = args[0] if args else kwargs["hidden_states"]
    if any(kwargs.get(name) is not None for name in ("key_value_states", "encoder_hidden_states")):
        kwargs.pop(ROTARY, None)  # its keys are of another text
        bias = shared.cross_bias
        if shared.queries is not None:
            states = states + shared.queries.to(states.dtype)
            args, kwargs = (
                ((states, *args[1:]), kwargs) if args else (args, {**kwargs, "hidden_states": states})
            )
    else:
        bias = _self_attention_bias(attention, shared, states, kwargs)
    # A bias that is there already is that of the layer before, which hands it on, as T5's.
    if bias is not None and kwargs.get("position_bias") is None:
        kwargs["position_bias"] = bias
    return args, kwargs


def _self_attention_bias(
    attention: nn.Module, shared: AttentionInputs, states: Tensor, kwargs: dict[str, Any]
) -> Bias | None:
    """The method's bias, and the model's own of distances; in `kwargs`, RoFormer's sines at these places."""
    new = slice(-states.shape[1], None)
    if kwargs.get("sinusoidal_pos") is not None:
        width = kwargs["sinusoidal_pos"].shape[-1]
        kwargs["sinusoidal_pos"] = sines(shared.places[:, new], width)[:, None].to(states.dtype)
    if kwargs.get("position_bias") is not None or not getattr(
        attention, "has_relative_attention_bias", False
    ):
        return shared.bias
    of_model = t5_bias(attention, shared.places)[:, :, new].to(states.dtype)
    return of_model if shared.bias is None else of_model + shared.bias


def pre_cross_attention(
    attention: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> tuple[tuple[Any, ...], dict[str, Any]] | None:
    """Hook before cross-attention that would get the bias and the angles of self-attention, as in BERT: its
    keys are of another text, so remove them.
    """
    if all(kwargs.get(name) is None for name in ENCODER_STATES):
        return None
    return args, {name: value for name, value in kwargs.items() if name not in ("position_bias", ROTARY)}


def sines(places: Float[Tensor, "B T"], width: int) -> Float[Tensor, "B T K"]:
    """[sin(p w_k), cos(p w_k)], w_k = 10000^(-2k / K): a row of RoFormer's and GPT-J's tables at place p."""
    rates = 10_000 ** (-torch.arange(0, width, 2, dtype=torch.float64, device=places.device) / width)
    angles = places.double()[..., None] * rates
    return torch.cat([angles.sin(), angles.cos()], -1)


def t5_bias(attention: Any, places: Float[Tensor, "B T"]) -> Bias:
    """T5's bias at real places: the model's own table, linear between whole distances."""
    return of_buckets(
        attention.relative_attention_bias.weight,
        places[..., None],
        attention.relative_attention_max_distance,
        bidirectional=not attention.is_decoder,
    )


def rotary_attention(
    module: nn.Module, query: Tensor, key: Tensor, value: Tensor, attention_mask: Tensor | None, **kwargs: Any
) -> tuple[Tensor, Tensor | None]:
    """transformers' sdpa attention; queries and keys are rotated by angles (B, T, K/2) if there are any.

    A cache stores keys before rotation, because a method may change the angles of past tokens. That of a
    sliding window has the last keys only, and so need the angles and the bias.
    """
    angles, bias, keys = kwargs.pop(ROTARY, None), kwargs.get("position_bias"), key.shape[2]
    if angles is not None:
        query, key = rotate(query, angles[:, -query.shape[2] :]), rotate(key, angles[:, -keys:])
    if bias is not None:
        kwargs["position_bias"] = bias[..., -keys:]
    output: tuple[Tensor, Tensor | None] = ALL_ATTENTION_FUNCTIONS["sdpa"](
        module, query, key, value, attention_mask, **kwargs
    )
    return output


AttentionInterface.register(ROTARY, rotary_attention)
AttentionMaskInterface.register(ROTARY, ALL_MASK_ATTENTION_FUNCTIONS["sdpa"])


class AlibiAtPlaces:
    """A model's `build_alibi_tensor` at real places: its mask has place + 1 at real tokens, 0 at padding.

    A parent of the model's class: transformers looks the function up there, not on the instance.
    """

    def build_alibi_tensor(self, attention_mask: Tensor, num_heads: int, dtype: torch.dtype) -> Tensor:
        check_reading("its bias of distances (build_alibi_tensor)")
        two = torch.ones(1, 2, device=attention_mask.device)
        slopes = super().build_alibi_tensor(two, num_heads, torch.float32)[:, 0, 1]  # type: ignore[misc]
        places = (attention_mask - 1) * (attention_mask > 0)
        bias: Tensor = slopes[:, None] * places[:, None]
        return bias.flatten(0, 1)[:, None].to(dtype)


class WithoutPosition:
    """The part that makes an image's tokens, without its position table and dropout: pixels become vectors,
    and vectors with position, given in place of pixels, get the dropout.

    A parent of the part's class. The frozen table keeps its key in the state dict.
    """

    _parameters: dict[str, Any]
    _modules: dict[str, Any]

    @property
    def position_embeddings(self) -> Tensor:
        """Zero: the sum broadcasts, in any precision."""
        check_reading("the silenced position table")
        return torch.zeros(())

    @position_embeddings.setter
    def position_embeddings(self, table: Tensor) -> None:
        """Nothing: replicas of data parallelism set their weights, and this one is not read."""

    @property
    def dropout(self) -> nn.Module:
        """None before position is added."""
        return nn.Identity()

    def interpolate_pos_encoding(self, *args: Any, **kwargs: Any) -> Tensor:
        return self.position_embeddings

    def forward(self, pixel_values: Tensor, *args: Any, **kwargs: Any) -> Vectors:
        if pixel_values.ndim == 3:
            check_reading("the part that makes patches")
            placed: Tensor = self._modules["dropout"](pixel_values)
            return placed
        vectors: Tensor = super().forward(pixel_values, *args, **kwargs)  # type: ignore[misc]
        return vectors


# UMT5's and GPT-J's attention computes position itself. While a method is attached, its class has a parent
# that takes position as an input, and hands it on to the function by which the module would compute it.
_handed = ThreadValue()  # position, to this thread's attention module that would compute it itself


class BiasGiven:
    """UMT5's attention with `position_bias` as an input, as T5's has it."""

    def forward(self, *args: Any, position_bias: Tensor | None = None, **kwargs: Any) -> Any:
        with _handed.holding(position_bias):
            return super().forward(*args, **kwargs)  # type: ignore[misc]

    @property
    def has_relative_attention_bias(self) -> bool:
        """Whether `compute_bias` is called: with a table of its own, or to hand a bias on."""
        return _handed.value is not None or bool(vars(self)["has_relative_attention_bias"])

    def compute_bias(self, *args: Any, **kwargs: Any) -> Tensor:
        bias = _handed.value
        if bias is None:
            check_reading("the model's bias of distances")
            bias = super().compute_bias(*args, **kwargs)  # type: ignore[misc]
        return bias


class PlacesGiven:
    """GPT-J's attention with real numbers as `position_ids`."""

    pos_embd_dim: int

    def forward(self, *args: Any, position_ids: Tensor, **kwargs: Any) -> Any:
        if not position_ids.is_floating_point():
            check_reading("the model's rotation")
        index = torch.arange(position_ids.shape[1], device=position_ids.device).expand_as(position_ids)
        with _handed.holding(position_ids):
            return super().forward(*args, position_ids=index, **kwargs)  # type: ignore[misc]

    def _get_embed_positions(self, position_ids: Tensor) -> Tensor:
        places = _handed.value
        assert places is not None
        return sines(places, self.pos_embd_dim)


def parent_of(module: nn.Module) -> type | None:
    """The parent that a module's class needs, by structure; None if it takes position as an input."""
    if hasattr(module, "_relative_position_bucket") and "position_bias" not in _inputs(module):
        return BiasGiven
    return PlacesGiven if hasattr(module, "_get_embed_positions") else None


def _inputs(module: nn.Module) -> Iterable[str]:
    """Of its forward, before its class was changed."""
    kind: Any = getattr(module, "plain", type(module))
    return inspect.signature(kind.forward).parameters
