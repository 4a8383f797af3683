"""Other libraries' positional encodings as subjects: what each claims, and its formula where its layout differs from ours."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from difflib import get_close_matches
from importlib.util import find_spec
from typing import Any

from vnait.errors import InputError
from vnait.laws import formulas
from vnait.laws.adapters import (
    M2M,
    Added,
    BertBias,
    BertTable,
    Bloom,
    Llama,
    RotaryTorch,
    Started,
    T5Bias,
    XBias,
    XRotary,
    XWrapper,
    xt,
)
from vnait.laws.formulas import Expected, Rows
from vnait.laws.subjects import Probe, Subject
from vnait.methods import METHODS, Size

LIBRARIES = {
    "x-transformers": "x_transformers",
    "rotary-embedding-torch": "rotary_embedding_torch",
    "positional-encodings": "positional_encodings",
    "transformers": "transformers",
}


# --- Formulas that differ from ours in layout or size -----------------------------------------------------------------


def _interleaved(probe: Any, at: Rows) -> Expected:
    return replace(formulas.FORMULAS["rope"](probe, at), layout="interleaved")


def _interleaved_xpos(probe: Any, at: Rows) -> Expected:
    return replace(formulas.FORMULAS["xpos"](probe, at), layout="interleaved")


def _waves_in_halves(probe: Any, at: Rows) -> Expected:
    """All sines, then all cosines, times a learned number."""
    dim, scale = probe.attention.query.in_features, float(probe.part.scale)
    codes = [formulas.sinusoid(i, dim) for (i,) in at]
    return Expected(added=[[scale * number for number in code[::2] + code[1::2]] for code in codes])


def _table(probe: Any, at: Rows) -> Expected:
    rows = probe.part.emb.weight.tolist()
    return Expected(added=[[number * probe.part.scale for number in rows[int(i)]] for (i,) in at])


def _buckets(probe: Any, at: Rows) -> Expected:
    table, scale = probe.part.relative_attention_bias.weight.tolist(), getattr(probe.part, "scale", 1.0)
    some, heads = range(len(at)), range(len(table[0]))
    return Expected(
        bias=[[[scale * table[formulas.bucket(j - i)][head] for j in some] for i in some] for head in heads]
    )


def _later_gains(probe: Any, at: Rows) -> Expected:
    """BLOOM's: m_h j, which a softmax over earlier keys can't tell from ALiBi's."""
    m, some = formulas.slopes(probe.heads), range(len(at))
    return Expected(bias=[[[slope * j for j in some] for _ in some] for slope in m])


# --- The list ---------------------------------------------------------------------------------------------------------


def _subject(name: str, make: Callable[[Size], Probe], **claims: Any) -> Subject:
    return Subject(name=name, make=make, **claims)


def _penc(size: Size) -> Probe:
    from positional_encodings.torch_encodings import PositionalEncoding1D

    return Added(size, PositionalEncoding1D(size.dim))


RELATIVE: dict[str, Any] = {"causal": True, "relative": True}

PEERS: dict[str, Subject] = {
    subject.name: subject
    for subject in (
        _subject("rotary-embedding-torch:rope", RotaryTorch, places="real", formula=_interleaved, **RELATIVE),
        _subject(
            "rotary-embedding-torch:xpos",
            lambda size: RotaryTorch(size, xpos=True),
            formula=_interleaved_xpos,
            **RELATIVE,
        ),
        _subject(
            "x-transformers:sinusoidal",
            lambda size: Started(size, xt().ScaledSinusoidalEmbedding(size.dim)),
            places="real",
            causal=True,
            formula=_waves_in_halves,
        ),
        _subject(
            "x-transformers:learned",
            lambda size: Started(size, xt().AbsolutePositionalEmbedding(size.dim, size.max_length)),
            places="whole",
            causal=True,
            formula=_table,
        ),
        _subject("x-transformers:rope", XRotary, places="real", formula=_interleaved, **RELATIVE),
        _subject(
            "x-transformers:xpos",
            lambda size: XRotary(size, xpos=True),
            places="real",
            formula=_interleaved_xpos,
            **RELATIVE,
        ),
        _subject(
            "x-transformers:alibi",
            lambda size: XBias(size, xt().AlibiPositionalBias(heads=size.num_heads)),
            places="real",
            formula=formulas.FORMULAS["alibi"],
            **RELATIVE,
        ),
        _subject(
            "x-transformers:t5",
            lambda size: XBias(size, xt().RelativePositionBias(size.width**0.5, heads=size.num_heads)),
            formula=_buckets,
            **RELATIVE,
        ),
        _subject(
            "x-transformers:dynamic",
            lambda size: XBias(size, xt().DynamicPositionBias(dim=8, heads=size.num_heads, depth=2)),
            **RELATIVE,
        ),
        _subject("x-transformers:model-alibi", lambda size: XWrapper(size, alibi_pos_bias=True), long=False),
        _subject("x-transformers:model-rope", lambda size: XWrapper(size, rotary_pos_emb=True), long=False),
        _subject("positional-encodings:1d", _penc, causal=True, formula=formulas.FORMULAS["sinusoidal"]),
        _subject("transformers:llama-rope", Llama, places="real", formula=formulas.FORMULAS["rope"], **RELATIVE),
        _subject("transformers:bloom-alibi", Bloom, formula=_later_gains, **RELATIVE),
        _subject("transformers:t5", T5Bias, formula=_buckets, **RELATIVE),
        _subject("transformers:bert-learned", BertTable, places="whole"),
        _subject("transformers:bert-bias-eager", lambda size: BertBias(size, attention="eager")),
        _subject("transformers:bert-bias-sdpa", lambda size: BertBias(size, attention="sdpa")),
        _subject("transformers:m2m-sinusoidal", M2M, causal=True),
    )
}


def installed() -> list[Subject]:
    """Those whose library is there."""
    return [subject for subject in PEERS.values() if find_spec(LIBRARIES[_library(subject.name)]) is not None]


def found(name: str) -> list[Subject]:
    """The peer or the peers of a name: one of `PEERS`, a library, or "peers" for all that are installed."""
    if name == "peers":
        return installed()
    some = [subject for subject in PEERS.values() if name in (subject.name, _library(subject.name))]
    if not some:
        known = [*METHODS, "ours", "peers", *LIBRARIES, *PEERS]
        near = get_close_matches(name, known, 1)
        hint = f"did you mean {near[0]}? Take" if near else "take"
        raise InputError(f"{name!r} is no method and no peer; {hint} one of {', '.join(known)}.")
    library = _library(some[0].name)
    if find_spec(LIBRARIES[library]) is None:
        raise InputError(f"{name} needs {library}, which is not installed; run: pip install 'vnait[peers]'")
    return some


def _library(name: str) -> str:
    return name.partition(":")[0]
