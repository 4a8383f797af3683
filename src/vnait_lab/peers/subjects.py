"""Other libraries' positional encodings as subjects, with their claims and formulas."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from importlib.util import find_spec
from typing import Any

from vnait.positions.conformance_suite.subjects import Expected, Probe, Rows, Subject
from vnait.positions.recipe import Size
from vnait.shared.errors import InputError
from vnait_lab.peers import formulas
from vnait_lab.peers.adapters import (
    M2M,
    Added,
    BertBias,
    BertTable,
    Bloom,
    Llama,
    RotaryTorch,
    T5Model,
    XAdded,
    XBias,
    XRotary,
    XWrapper,
    xt,
)

LIBRARIES = {
    "x-transformers": "x_transformers",
    "rotary-embedding-torch": "rotary_embedding_torch",
    "positional-encodings": "positional_encodings",
    "transformers": "transformers",
}


# --- Formulas that differ from ours in layout or size


def _interleaved(probe: Any, at: Rows) -> Expected:
    return replace(formulas.FORMULAS["rope"](probe, at), layout="interleaved")


def _interleaved_xpos(probe: Any, at: Rows) -> Expected:
    return replace(formulas.FORMULAS["xpos"](probe, at), layout="interleaved")


def _waves_in_halves(probe: Any, at: Rows) -> Expected:
    """All sines, then all cosines, times a learned scale."""
    dim, scale = probe.attention.query.in_features, float(probe.part.scale)
    codes = [formulas.sinusoid(i, dim) for (i,) in at]
    return Expected(added=[[scale * number for number in code[::2] + code[1::2]] for code in codes])


def _table(probe: Any, at: Rows) -> Expected:
    rows = probe.part.emb.weight.tolist()
    return Expected(added=[[number * probe.part.scale for number in rows[int(i)]] for (i,) in at])


def _buckets(probe: Any, at: Rows) -> Expected:
    table, scale = probe.part.relative_attention_bias.weight.tolist(), getattr(probe.part, "scale", 1.0)
    tokens, heads = range(len(at)), range(len(table[0]))
    rows = [[table[formulas.bucket(j - i)] for j in tokens] for i in tokens]
    return Expected(bias=[[[scale * entry[head] for entry in row] for row in rows] for head in heads])


def _bloom(probe: Any, at: Rows) -> Expected:
    """m_h j, which a softmax over earlier keys can't distinguish from ALiBi."""
    tokens = range(len(at))
    return Expected(bias=[[[m * j for j in tokens] for _ in tokens] for m in formulas.slopes(probe.heads)])


# --- The list


def _peer(name: str, make: Callable[[Size], Probe], **claims: Any) -> Subject:
    return Subject(name=name, make=make, **claims)


def _penc(size: Size) -> Probe:
    from positional_encodings.torch_encodings import PositionalEncoding1D

    return Added(size, PositionalEncoding1D(size.dim))


RELATIVE: dict[str, Any] = {"causal": True, "relative": True}

PEERS: dict[str, Subject] = {
    subject.name: subject
    for subject in (
        _peer("rotary-embedding-torch:rope", RotaryTorch, positions="real", formula=_interleaved, **RELATIVE),
        _peer(
            "rotary-embedding-torch:xpos",
            lambda size: RotaryTorch(size, xpos=True),
            formula=_interleaved_xpos,
            **RELATIVE,
        ),
        _peer(
            "x-transformers:sinusoidal",
            lambda size: XAdded(size, xt().ScaledSinusoidalEmbedding(size.dim)),
            positions="real",
            causal=True,
            formula=_waves_in_halves,
        ),
        _peer(
            "x-transformers:learned",
            lambda size: XAdded(size, xt().AbsolutePositionalEmbedding(size.dim, size.max_length)),
            positions="whole",
            causal=True,
            formula=_table,
        ),
        _peer("x-transformers:rope", XRotary, positions="real", formula=_interleaved, **RELATIVE),
        _peer(
            "x-transformers:xpos",
            lambda size: XRotary(size, xpos=True),
            positions="real",
            formula=_interleaved_xpos,
            **RELATIVE,
        ),
        _peer(
            "x-transformers:alibi",
            lambda size: XBias(size, xt().AlibiPositionalBias(heads=size.num_heads)),
            positions="real",
            formula=formulas.FORMULAS["alibi"],
            **RELATIVE,
        ),
        _peer(
            "x-transformers:t5",
            lambda size: XBias(size, xt().RelativePositionBias(size.width**0.5, heads=size.num_heads)),
            formula=_buckets,
            **RELATIVE,
        ),
        _peer(
            "x-transformers:dynamic",
            lambda size: XBias(size, xt().DynamicPositionBias(dim=8, heads=size.num_heads, depth=2)),
            **RELATIVE,
        ),
        _peer("x-transformers:model-alibi", lambda size: XWrapper(size, alibi_pos_bias=True), long=False),
        _peer("x-transformers:model-rope", lambda size: XWrapper(size, rotary_pos_emb=True), long=False),
        _peer("positional-encodings:1d", _penc, causal=True, formula=formulas.FORMULAS["sinusoidal"]),
        _peer(
            "transformers:llama-rope", Llama, positions="real", formula=formulas.FORMULAS["rope"], **RELATIVE
        ),
        _peer("transformers:bloom-alibi", Bloom, formula=_bloom, **RELATIVE),
        _peer("transformers:t5", T5Model, formula=_buckets, **RELATIVE),
        _peer("transformers:bert-learned", BertTable, positions="whole"),
        _peer("transformers:bert-bias-eager", lambda size: BertBias(size, attention="eager")),
        _peer("transformers:bert-bias-sdpa", lambda size: BertBias(size, attention="sdpa")),
        _peer("transformers:m2m-sinusoidal", M2M, causal=True),
    )
}


def by_name() -> dict[str, Callable[[], list[Subject]]]:
    """Each of `PEERS`, all of a library, and "peers": those that are installed."""
    single = {name: partial(_installed, name, [peer]) for name, peer in PEERS.items()}
    library = {
        name: partial(_installed, name, [peer for peer in PEERS.values() if _library(peer.name) == name])
        for name in LIBRARIES
    }
    return {"peers": _all_installed, **library, **single}


def _all_installed() -> list[Subject]:
    return [peer for peer in PEERS.values() if find_spec(LIBRARIES[_library(peer.name)]) is not None]


def _installed(name: str, subjects: list[Subject]) -> list[Subject]:
    library = _library(name)
    if find_spec(LIBRARIES[library]) is None:
        raise InputError(f"{name} needs {library}, which is not installed; run: pip install 'vnait[peers]'")
    return subjects


def _library(name: str) -> str:
    return name.partition(":")[0]
