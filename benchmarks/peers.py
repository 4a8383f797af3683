"""Positions of other libraries in the encoder that `methods.py` measures: what they compute once per forward
pass, and what they do to the queries and keys of each layer.
"""

from collections.abc import Callable
from functools import partial

import torch
from torch import Tensor, nn

from vnait.model.backbone import Encoder
from vnait.positions.attention import Attention
from vnait.positions.injection import Injection
from vnait.positions.recipe import Size

Turn = Callable[[Tensor, Tensor], tuple[Tensor, Tensor]]


class Rotated(nn.Module):
    """An encoder whose queries and keys a peer rotates; `once(x)` makes the rotation of a forward pass."""

    def __init__(self, encoder: Encoder, once: Callable[[Tensor], Turn]) -> None:
        super().__init__()
        self.encoder, self.once = encoder, once
        for block in encoder.blocks:
            own = block.attention
            own.queries_and_keys = partial(self._rotated, own)

    def _rotated(self, attention: Attention, x: Tensor, injection: Injection) -> tuple[Tensor, Tensor]:
        return self.turn(attention.heads(attention.query(x)), attention.heads(attention.key(x)))

    def forward(self, vectors: Tensor, mask: Tensor) -> Tensor:
        self.turn = self.once(vectors)
        return self.encoder(vectors, Injection(), mask)


class Biased(nn.Module):
    """An encoder with a peer's bias, (H, T, T) of the number of queries and of keys."""

    def __init__(self, encoder: Encoder, part: nn.Module) -> None:
        super().__init__()
        self.encoder, self.part = encoder, part

    def forward(self, vectors: Tensor, mask: Tensor) -> Tensor:
        length = vectors.shape[1]
        bias = self.part(length, length)
        return self.encoder(vectors, Injection(bias=bias.view(1, *bias.shape[-3:])), mask)


def llama(encoder: Encoder, size: Size) -> nn.Module:
    from transformers import LlamaConfig
    from transformers.models.llama import modeling_llama as source

    config = LlamaConfig(hidden_size=size.dim, num_attention_heads=size.num_heads, head_dim=size.width)
    part = source.LlamaRotaryEmbedding(config)

    def once(x: Tensor) -> Turn:
        cos, sin = part(x, torch.arange(x.shape[1])[None])
        return lambda query, key: source.apply_rotary_pos_emb(query, key, cos, sin)

    return Rotated(encoder, once)


def modernbert(encoder: Encoder, size: Size) -> nn.Module:
    from transformers import ModernBertConfig
    from transformers.models.modernbert import modeling_modernbert as source

    config = ModernBertConfig(hidden_size=size.dim, num_attention_heads=size.num_heads)
    part = source.ModernBertRotaryEmbedding(config)

    def once(x: Tensor) -> Turn:
        cos, sin = part(x, torch.arange(x.shape[1])[None], "full_attention")
        return lambda query, key: source.apply_rotary_pos_emb(query, key, cos, sin)

    return Rotated(encoder, once)


def rotary_embedding_torch(encoder: Encoder, size: Size) -> nn.Module:
    from rotary_embedding_torch import RotaryEmbedding

    turned = RotaryEmbedding(dim=size.width).rotate_queries_or_keys
    return Rotated(encoder, lambda x: lambda query, key: (turned(query), turned(key)))


def x_rotary(encoder: Encoder, size: Size) -> nn.Module:
    from x_transformers import x_transformers as source

    part, turned = source.RotaryEmbedding(size.width), source.apply_rotary_pos_emb

    def once(x: Tensor) -> Turn:
        angle, scale = part.forward_from_seq_len(x.shape[1])
        return lambda query, key: (turned(query, angle, scale), turned(key, angle, scale**-1))

    return Rotated(encoder, once)


def x_alibi(encoder: Encoder, size: Size) -> nn.Module:
    from x_transformers import x_transformers as source

    return Biased(encoder, source.AlibiPositionalBias(size.num_heads, total_heads=size.num_heads))


def x_t5(encoder: Encoder, size: Size) -> nn.Module:
    from x_transformers import x_transformers as source

    return Biased(encoder, source.RelativePositionBias(1.0, heads=size.num_heads))


def x_dynamic(encoder: Encoder, size: Size) -> nn.Module:
    from x_transformers import x_transformers as source

    return Biased(encoder, source.DynamicPositionBias(size.dim // 4, heads=size.num_heads, depth=2))


PEERS: dict[str, Callable[[Encoder, Size], nn.Module]] = {
    "llama (transformers)": llama,
    "modernbert (transformers)": modernbert,
    "rotary-embedding-torch": rotary_embedding_torch,
    "rotary (x-transformers)": x_rotary,
    "alibi (x-transformers)": x_alibi,
    "t5 (x-transformers)": x_t5,
    "dynamic (x-transformers)": x_dynamic,
}
