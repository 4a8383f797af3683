"""Parts and models of other libraries as probes, called as their documentation does."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor, nn

from vnait.positions.attention import Attention
from vnait.positions.conformance_suite.subjects import Observation, Probe
from vnait.positions.recipe import Size
from vnait_lab.peers import formulas

LAST = 48  # tokens at the end of a long text whose bias is observed


class Peer(Probe):
    """A part of another library; none of them takes a shift."""

    def forward(
        self,
        vectors: Tensor,
        mask: Tensor,
        positions: Tensor | None = None,
        *,
        shift: Tensor | None = None,
        tokens: Tensor | None = None,
    ) -> Observation:
        return self.observed(vectors, mask, positions, tokens)

    def observed(
        self, vectors: Tensor, mask: Tensor, positions: Tensor | None, tokens: Tensor | None
    ) -> Observation:
        """What `Probe` asks for, at these positions, of these tokens."""
        raise NotImplementedError


class Plain(Peer):
    """Plain attention around a part of another library, which overrides one of three methods."""

    def __init__(self, size: Size) -> None:
        super().__init__()
        self.attention = Attention(dim=size.dim, num_heads=size.num_heads)

    def added(self, vectors: Tensor, mask: Tensor, positions: Tensor | None) -> Tensor | None:
        """(B, T, D) or (T, D), added to the vectors."""
        return None

    def rotated(self, query: Tensor, key: Tensor, positions: Tensor | None) -> tuple[Tensor, Tensor]:
        """q and k (B, H, T, K), rotated."""
        return query, key

    def bias(self, mask: Tensor, positions: Tensor | None, last: int, dtype: torch.dtype) -> Tensor | None:
        """(B or 1, H, last or 1, T): of the last queries and all keys."""
        return None

    def observed(
        self, vectors: Tensor, mask: Tensor, positions: Tensor | None, tokens: Tensor | None
    ) -> Observation:
        added = self.added(vectors, mask, positions)
        x = vectors if added is None else (vectors + added).to(vectors.dtype)
        attention = self.attention
        query, key, value = (
            attention.heads(linear(x)) for linear in (attention.query, attention.key, attention.value)
        )
        query, key = self.rotated(query, key, positions)
        bias = self.bias(mask, positions, vectors.shape[1] if tokens is None else len(tokens), x.dtype)
        if tokens is not None:
            x, mask = x[:, tokens], mask[:, tokens]
            query, key, value = (part[:, :, tokens] for part in (query, key, value))
            bias = None if bias is None else bias[..., tokens]
        scores = query @ key.transpose(-1, -2) / math.sqrt(query.shape[-1])
        scores = scores if bias is None else scores + bias.to(scores.dtype)
        scores = scores.masked_fill(~mask[:, None, None, :], -torch.inf)
        out = (scores.softmax(-1).to(value.dtype) @ value).transpose(1, 2).flatten(2)
        return Observation(x, out, query, key, scores, None if bias is None else bias.expand_as(scores))


class Biased(Plain):
    """A bias, observed at the last tokens only: (H, 8192, 8192) is never built."""

    def window(self, length: int) -> Tensor:
        return torch.arange(max(length - LAST, 0), length)


class Added(Plain):
    """A module called with the vectors, and with positions if there are any."""

    def __init__(self, size: Size, part: nn.Module) -> None:
        super().__init__(size)
        self.part = part

    def added(self, vectors: Tensor, mask: Tensor, positions: Tensor | None) -> Tensor | None:
        if positions is None:
            return self.part(vectors)
        return self.part(vectors, pos=positions[..., 0] if len(positions) > 1 else positions[0, :, 0])


def _padded_left(mask: Tensor) -> bool:
    """Looks at the numbers of the mask, which a compiled model can't."""
    return not torch.compiler.is_compiling() and mask.shape[1] > 0 and not bool(mask[:, 0].all())


class XAdded(Added):
    """x-transformers' table and sinusoid, with `seq_start_pos` for left padding."""

    def added(self, vectors: Tensor, mask: Tensor, positions: Tensor | None) -> Tensor | None:
        if positions is None and _padded_left(mask):
            return self.part(vectors, seq_start_pos=mask.long().argmax(-1))
        return super().added(vectors, mask, positions)


# --- rotary-embedding-torch


class RotaryTorch(Plain):
    """RotaryEmbedding(dim) and rotate_queries_or_keys; positions through `forward` and `apply_rotary_emb`."""

    def __init__(self, size: Size, *, xpos: bool = False) -> None:
        super().__init__(size)
        from rotary_embedding_torch import RotaryEmbedding

        self.part = RotaryEmbedding(dim=size.width, use_xpos=xpos)
        self.xpos = xpos

    def rotated(self, query: Tensor, key: Tensor, positions: Tensor | None) -> tuple[Tensor, Tensor]:
        if self.xpos:
            return self.part.rotate_queries_and_keys(query, key)
        if positions is None:
            return self.part.rotate_queries_or_keys(query), self.part.rotate_queries_or_keys(key)
        from rotary_embedding_torch import apply_rotary_emb

        angle = self.part(positions[..., 0])[:, None]
        return apply_rotary_emb(angle, query), apply_rotary_emb(angle, key)


# --- x-transformers


def xt() -> Any:
    """The module of x-transformers."""
    from x_transformers import x_transformers

    return x_transformers


class XRotary(Plain):
    """RotaryEmbedding and apply_rotary_pos_emb."""

    def __init__(self, size: Size, *, xpos: bool = False) -> None:
        super().__init__(size)
        self.part = xt().RotaryEmbedding(size.width, use_xpos=xpos)

    def rotated(self, query: Tensor, key: Tensor, positions: Tensor | None) -> tuple[Tensor, Tensor]:
        rotate = xt().apply_rotary_pos_emb
        if positions is None:
            angle, scale = self.part.forward_from_seq_len(query.shape[-2])
        else:
            angle, scale = self.part(positions[..., 0])
        return rotate(query, angle, scale), rotate(key, angle, scale**-1)


class XBias(Biased):
    """A module called with the number of queries and of keys."""

    def __init__(self, size: Size, part: nn.Module) -> None:
        super().__init__(size)
        self.part = part

    def bias(self, mask: Tensor, positions: Tensor | None, last: int, dtype: torch.dtype) -> Tensor | None:
        if positions is not None:
            return self.part.forward_custom_pos(positions[..., 0])  # type: ignore[operator]
        bias = self.part(last, mask.shape[1])
        return bias if bias.ndim == 4 else bias[None]


class XWrapper(Peer):
    """A TransformerWrapper of one layer; vectors go in by `sum_embeds`."""

    def __init__(self, size: Size, **settings: Any) -> None:
        super().__init__()
        layers = xt().Encoder(dim=size.dim, depth=1, heads=size.num_heads, **settings)
        self.model = xt().TransformerWrapper(num_tokens=2, max_seq_len=size.max_length, attn_layers=layers)

    def observed(
        self, vectors: Tensor, mask: Tensor, positions: Tensor | None, tokens: Tensor | None
    ) -> Observation:
        ids = torch.zeros(vectors.shape[:2], dtype=torch.long)
        start = mask.long().argmax(-1) if _padded_left(mask) else None
        out = self.model(ids, mask=mask, sum_embeds=vectors, seq_start_pos=start, return_embeddings=True)
        return Observation(x=out, out=out)

    def without_method(self, vectors: Tensor, mask: Tensor) -> Tensor:
        layers = self.model.attn_layers
        parts = layers.rel_pos, layers.rotary_pos_emb
        layers.rel_pos = layers.rotary_pos_emb = None
        out = self(vectors, mask).out
        layers.rel_pos, layers.rotary_pos_emb = parts
        return out


# --- transformers


class Llama(Plain):
    """LlamaRotaryEmbedding and apply_rotary_pos_emb."""

    def __init__(self, size: Size) -> None:
        super().__init__(size)
        from transformers import LlamaConfig
        from transformers.models.llama.modeling_llama import LlamaRotaryEmbedding

        self.part = LlamaRotaryEmbedding(
            LlamaConfig(
                hidden_size=size.dim,
                num_attention_heads=size.num_heads,
                head_dim=size.width,
                max_position_embeddings=size.max_length,
            )
        )

    def rotated(self, query: Tensor, key: Tensor, positions: Tensor | None) -> tuple[Tensor, Tensor]:
        from transformers.models.llama.modeling_llama import apply_rotary_pos_emb

        ids = torch.arange(query.shape[-2])[None] if positions is None else positions[..., 0]
        return apply_rotary_pos_emb(query, key, *self.part(query, ids))


class Bloom(Biased):
    """build_alibi_tensor, called with the mask."""

    def __init__(self, size: Size) -> None:
        super().__init__(size)
        self.heads = size.num_heads

    def bias(self, mask: Tensor, positions: Tensor | None, last: int, dtype: torch.dtype) -> Tensor | None:
        from transformers.models.bloom.modeling_bloom import build_alibi_tensor

        return build_alibi_tensor(mask.long(), self.heads, dtype).unflatten(0, (len(mask), self.heads))


class T5Model(Biased):
    """T5Attention.compute_bias."""

    def __init__(self, size: Size) -> None:
        super().__init__(size)
        from transformers import T5Config
        from transformers.models.t5.modeling_t5 import T5Attention

        config = T5Config(d_model=size.dim, num_heads=size.num_heads, d_kv=size.width)
        self.part = T5Attention(config, has_relative_attention_bias=True, layer_idx=0)

    def bias(self, mask: Tensor, positions: Tensor | None, last: int, dtype: torch.dtype) -> Tensor | None:
        length = mask.shape[1]
        return self.part.compute_bias(last, length, past_seen_tokens=length - last)


def _bert_config(size: Size, attention: str) -> Any:
    from transformers import BertConfig

    return BertConfig(
        vocab_size=2,
        hidden_size=size.dim,
        num_attention_heads=size.num_heads,
        num_hidden_layers=1,
        intermediate_size=size.dim,
        max_position_embeddings=size.max_length,
        hidden_dropout_prob=0.0,
        attention_probs_dropout_prob=0.0,
        attn_implementation=attention,
    )


class BertTable(Peer):
    """BertModel of one layer; vectors go in by `inputs_embeds`, positions by `position_ids`."""

    def __init__(self, size: Size) -> None:
        super().__init__()
        from transformers import BertModel

        self.model = BertModel(_bert_config(size, "sdpa"), add_pooling_layer=False)

    def observed(
        self, vectors: Tensor, mask: Tensor, positions: Tensor | None, tokens: Tensor | None
    ) -> Observation:
        if positions is None and _padded_left(mask):
            positions = (mask.long().cumsum(-1) - 1).clamp(min=0)[..., None]  # as users do for left padding
        ids = None if positions is None else positions[..., 0]
        if tokens is not None:  # the embeddings only: no attention over 8,192 tokens
            x = self.model.embeddings(inputs_embeds=vectors, position_ids=ids)[:, tokens]
            return Observation(x=x, out=x)
        out = self.model(
            inputs_embeds=vectors, attention_mask=mask.long(), position_ids=ids
        ).last_hidden_state
        return Observation(x=out, out=out)

    def without_method(self, vectors: Tensor, mask: Tensor) -> Tensor:
        with torch.no_grad():
            self.model.embeddings.position_embeddings.weight.zero_()
        return self(vectors, mask).out


class BertBias(Peer):
    """BertEncoder of one layer with ALiBi as `position_bias`."""

    def __init__(self, size: Size, *, attention: str) -> None:
        super().__init__()
        from transformers.models.bert.modeling_bert import BertEncoder

        self.encoder = BertEncoder(_bert_config(size, attention))
        self.slopes = formulas.slopes(size.num_heads)

    def observed(
        self, vectors: Tensor, mask: Tensor, positions: Tensor | None, tokens: Tensor | None
    ) -> Observation:
        if tokens is not None:
            vectors, mask = vectors[:, tokens], mask[:, tokens]
        place = torch.arange(vectors.shape[1])
        slopes = torch.tensor(self.slopes, dtype=vectors.dtype)[:, None, None]
        bias = (-slopes * (place[:, None] - place).abs())[None].to(vectors.dtype)
        return self._encoded(vectors, mask, position_bias=bias.repeat(len(vectors), 1, 1, 1))

    def _encoded(self, vectors: Tensor, mask: Tensor, **inputs: Tensor) -> Observation:
        least = torch.finfo(vectors.dtype).min
        padding = torch.zeros(mask.shape, dtype=vectors.dtype).masked_fill(~mask, least)
        padding = padding[:, None, None, :].expand(-1, 1, mask.shape[1], -1)
        out = self.encoder(vectors, attention_mask=padding, **inputs).last_hidden_state
        return Observation(x=out, out=out)

    def without_method(self, vectors: Tensor, mask: Tensor) -> Tensor:
        return self._encoded(vectors, mask).out


class M2M(Plain):
    """M2M100SinusoidalPositionalEmbedding, which counts ids that aren't padding."""

    def __init__(self, size: Size) -> None:
        super().__init__(size)
        from transformers.models.m2m_100.modeling_m2m_100 import M2M100SinusoidalPositionalEmbedding

        self.part = M2M100SinusoidalPositionalEmbedding(size.max_length, size.dim, padding_idx=1)

    def added(self, vectors: Tensor, mask: Tensor, positions: Tensor | None) -> Tensor | None:
        return self.part(input_ids=torch.where(mask, 2, 1))
