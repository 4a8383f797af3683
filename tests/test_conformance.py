"""Conformance: our methods keep every law; laws find deliberate faults, and the known faults of peers."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from dataclasses import asdict, replace
from pathlib import Path

import pandas as pd
import pytest
import torch
from rich.cells import cell_len
from torch import Tensor, nn

import vnait
from conftest import unchecked
from helpers import methods_of_each_kind, python
from vnait import cli
from vnait.cli import terminal
from vnait.positions import attention as backbone
from vnait.positions.attention import Attention
from vnait.positions.conformance_suite import LAWS, Row, Subject, conformance, subjects
from vnait.positions.conformance_suite.subjects import MethodProbe
from vnait.positions.coordinates import Content, Elastic, Gate, Grid, Index, Jitter, Running, Span
from vnait.positions.coordinates.sources import UNIT_Z
from vnait.positions.encodings import AlibiBias, Rotary, Sinusoid, T5Bias, Table
from vnait.positions.injection import Injection
from vnait.positions.method import Method
from vnait.positions.methods import METHODS
from vnait.shared.errors import InputError
from vnait_lab.peers import subjects as peers

DIM, HEADS = 32, 2


def broken(subject: object, *laws: str) -> list[Row]:
    """The laws that the subject breaks; the tests' check of types would raise before them."""
    with unchecked():
        return [row for row in conformance(subject, laws=laws or None) if row.passed is False]


# --- Ours


TRACING = {"compile", "export"}
PRECISION = {"bfloat16", "float16", "no trace"}  # long texts, several times


@pytest.mark.parametrize("name", METHODS)
def test_every_method_keeps_every_law_of_short_texts(name: str) -> None:
    rows = kept_laws(name, set(LAWS) - TRACING - PRECISION)
    assert sum(row.passed is True for row in rows) >= 10


@pytest.mark.parametrize("name", methods_of_each_kind())
def test_methods_of_each_kind_keep_the_laws_of_precision(name: str) -> None:
    assert any(row.passed for row in kept_laws(name, PRECISION))


def kept_laws(name: str, laws: set[str]) -> list[Row]:
    with unchecked():
        rows = conformance(name, laws=sorted(laws))
    keep_every_law(rows)
    return rows


@pytest.mark.long
def test_every_method_keeps_every_law() -> None:
    """By the command in another process: the tests' check of types can't be compiled."""
    command = "import sys; from vnait.cli import main; main(sys.argv[1:])"
    printed = python(command, "conformance", *METHODS, "--json", "--quiet")
    rows = [Row(**row) for row in json.loads(printed)["rows"]]
    assert [(row.implementation, row.law) for row in rows] == [
        (name, law) for name in METHODS for law in LAWS
    ]
    keep_every_law(rows)
    assert sum(row.passed is True for row in rows) >= 15 * len(METHODS)


def keep_every_law(rows: list[Row]) -> None:
    wrong = [row for row in rows if row.passed is False]
    assert wrong == []
    assert all(row.detail for row in rows if row.passed is None)
    assert not any(row.detail.startswith("refused") for row in rows)
    excused = {
        row.implementation for row in rows if row.passed is None and row.law in ("bfloat16", "float16")
    }
    assert excused <= {"xpos", "cope", "fox", "nape", "spectral", "vnait-causal", "vnait-paper"}


def test_the_claims_of_a_method_follow_from_its_parts() -> None:
    (rope,) = subjects("rope")
    assert (rope.causal, rope.relative, rope.positions, rope.axes) == (True, True, "real", 1)
    (grid,) = subjects("grid-rope")
    assert (grid.relative, grid.axes) == (True, 2)
    (none,) = subjects("none")
    assert not none.positional
    assert not none.relative
    assert {
        row.law for row in conformance("none", laws=["order", "translation", "prefix"]) if row.passed
    } == {"prefix"}


# --- Mutants: a small fault put in on purpose, and the law that finds it

Patch = pytest.MonkeyPatch
MUTANTS: dict[str, tuple[str, Callable[[Patch], object]]] = {}


def mutant(law: str) -> Callable[[Callable[[Patch], object]], Callable[[Patch], object]]:
    def register(make: Callable[[Patch], object]) -> Callable[[Patch], object]:
        MUTANTS[make.__name__] = law, make
        return make

    return register


def built(coordinates: nn.Module, encoding: nn.Module, **parts: nn.Module) -> Method:
    return Method(coordinates=coordinates, encoding=encoding, **parts)


def like(name: str, method: Callable[[], Method]) -> Subject:
    """Formula and claims of a method in METHODS, with other parts."""
    (subject,) = subjects(name)
    return replace(subject, make=lambda size: MethodProbe(method(), size))


class Cast(Index):
    """Positions cast to another type."""

    def __init__(self, dtype: torch.dtype) -> None:
        super().__init__()
        self.dtype = dtype

    def forward(self, vectors, mask, positions=None):
        return super().forward(vectors, mask, positions).to(self.dtype).float()


@mutant("bfloat16")
def positions_in_bfloat16(patch: Patch) -> object:
    return built(Cast(torch.bfloat16), Rotary(width=16))


@mutant("float16")
def positions_in_float16(patch: Patch) -> object:
    return built(Cast(torch.float16), Sinusoid(dim=DIM))


@mutant("float16")
def gaps_in_half_precision(patch: Patch) -> object:
    """A former bug in `Content`: a position is the sum of thousands of gaps."""

    def forward(self, vectors, mask):
        seen = nn.functional.pad((vectors * mask[..., None]).transpose(1, 2), (self.before, self.after))
        return UNIT_Z + self.tell(nn.functional.gelu(self.look(seen)).transpose(1, 2))[..., 0]

    patch.setattr(Content, "forward", forward)
    return "lpi"


@mutant("no trace")
def a_cache_that_keeps_its_first_dtype(patch: Patch) -> object:
    class Cached(Index):
        def __init__(self) -> None:
            super().__init__()
            self.cache: dict[int, Tensor] = {}

        def forward(self, vectors, mask, positions=None):
            count = mask.shape[1]
            if count not in self.cache:
                self.cache[count] = torch.arange(count, dtype=vectors.dtype)
            return self.cache[count].float()[None, :, None].expand(len(mask), -1, -1)

    return built(Cached(), Sinusoid(dim=DIM))


@mutant("left padding")
def an_index_that_counts_padding(patch: Patch) -> object:
    class Counting(Index):
        def forward(self, vectors, mask, positions=None):
            return super().forward(vectors, torch.ones_like(mask), positions)

    return built(Counting(), Sinusoid(dim=DIM))


@mutant("left padding")
def an_index_of_the_batch(patch: Patch) -> object:
    class OfTheFirst(Index):
        per_sentence = True

        def forward(self, vectors, mask, positions=None):
            return super().forward(vectors, mask[:1], positions).expand(len(mask), -1, -1)

    return built(OfTheFirst(), Sinusoid(dim=DIM))


@mutant("right padding")
def a_mask_forgotten(patch: Patch) -> object:
    forward = Attention.forward
    patch.setattr(Attention, "forward", lambda self, x, injection, mask: forward(self, x, injection, None))
    return "rope"


@mutant("right padding")
def padding_counted_in_the_span(patch: Patch) -> object:
    class Counting(Span):
        def forward(self, vectors, mask):
            return super().forward(vectors, torch.ones_like(mask))

    return built(Counting(source="uniform"), Sinusoid(dim=DIM))


@mutant("batch")
def a_number_of_the_batch(patch: Patch) -> object:
    class Scaled(Sinusoid):
        def forward(self, at):
            return super().forward(at * len(at))

    return built(Jitter(PerSentence()), Scaled(dim=DIM))


class PerSentence(Index):
    per_sentence = True


@mutant("odd width")
def halves_that_do_not_fit(patch: Patch) -> object:
    class Halves(Sinusoid):
        def forward(self, at):
            half = Sinusoid(dim=self.dim // 2)(at).added
            return Injection(added=super().forward(at).added + torch.cat([half, half], -1))

    (subject,) = subjects("sinusoidal")
    return replace(subject, make=lambda size: MethodProbe(built(Index(), Halves(dim=size.dim)), size))


@mutant("no token")
def a_maximum_of_nothing(patch: Patch) -> object:
    class Unchecked(nn.Module):
        causal = per_sentence = True

        def forward(self, vectors, mask):
            return mask.cumsum(-1)[..., None].float() / mask.cumsum(-1).max()

    return built(Unchecked(), Sinusoid(dim=DIM))


@mutant("one token")
def a_span_from_zero(patch: Patch) -> object:
    class FromZero(Index):
        def forward(self, vectors, mask, positions=None):
            return super().forward(vectors, mask) / (mask.sum(-1)[:, None, None] - 1)

    return built(FromZero(), Sinusoid(dim=DIM))


@mutant("past the longest")
def a_table_read_without_a_check(patch: Patch) -> object:
    class Bare(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.table = nn.Embedding(64, DIM)

        def forward(self, at):
            return Injection(added=self.table(at[..., 0].long()))

    return built(Index(), Bare())


@mutant("fractional")
def positions_rounded_down(patch: Patch) -> object:
    class Floor(Sinusoid):
        def forward(self, at):
            return super().forward(at.floor())

    return built(Index(), Floor(dim=DIM))


@mutant("a text's own")
def places_of_the_first_text(patch: Patch) -> object:
    class OfTheFirst(Index):
        def forward(self, vectors, mask, positions=None):
            return super().forward(
                vectors, mask, None if positions is None else positions[:1].expand_as(positions)
            )

    return built(OfTheFirst(), Sinusoid(dim=DIM))


@mutant("gradient")
def coordinates_cut_off_in_the_encoding(patch: Patch) -> object:
    class Cut(Sinusoid):
        def forward(self, at):
            return super().forward(at.detach())

    return built(Index(), Cut(dim=DIM))


@mutant("gradient")
def coordinates_cut_off_at_their_source(patch: Patch) -> object:
    class Cut(Running):
        def forward(self, vectors, mask):
            return super().forward(vectors, mask).detach()

    return built(Cut(source="content", dim=DIM), Rotary(width=16))


@mutant("prefix")
def a_span_that_claims_to_be_causal(patch: Patch) -> object:
    class Claiming(Span):
        causal = True

    return built(Claiming(source="uniform"), Sinusoid(dim=DIM))


@mutant("prefix")
def a_prefix_that_moves_in_long_texts(patch: Patch) -> object:
    """As dynamic NTK scaling does."""

    class Far(Index):
        def forward(self, vectors, mask, positions=None):
            return super().forward(vectors, mask) * 64 / mask.sum(-1).clamp(min=64)[:, None, None]

    return built(Far(), Sinusoid(dim=DIM))


@mutant("inner padding")
def padding_counted_between_tokens(patch: Patch) -> object:
    class Columns(Index):
        def forward(self, vectors, mask, positions=None):
            first = mask.long().argmax(-1, keepdim=True)
            return (torch.arange(mask.shape[1]) - first).clamp(min=0).float()[..., None]

    return built(Columns(), Sinusoid(dim=DIM))


@mutant("no gradients")
def another_answer_without_gradients(patch: Patch) -> object:
    class Doubled(Index):
        per_sentence = True

        def forward(self, vectors, mask, positions=None):
            return super().forward(vectors, mask) * (1 + (not torch.is_grad_enabled()))

    return built(Doubled(), Sinusoid(dim=DIM))


@mutant("right padding")
def a_crash_at_padding(patch: Patch) -> object:
    """Which is no refusal, though Python calls it a ValueError."""

    class Crashing(Index):
        def forward(self, vectors, mask, positions=None):
            if not torch.compiler.is_compiling() and not mask.all():
                _one, _two = [1, 2, 3]
            return super().forward(vectors, mask)

    return built(Crashing(), Sinusoid(dim=DIM))


@mutant("translation")
def only_queries_rotated(patch: Patch) -> object:
    def queries_and_keys(self, x, injection):
        query, key = self.heads(self.query(x)), self.heads(self.key(x))
        return backbone.rotate(query, injection.rotary), key

    patch.setattr(Attention, "queries_and_keys", queries_and_keys)
    return "rope"


@mutant("translation")
def a_code_that_claims_to_be_relative(patch: Patch) -> object:
    class Claiming(Sinusoid):
        relative = True

    return built(Index(), Claiming(dim=DIM))


@mutant("order")
def a_bias_dropped_by_the_attention(patch: Patch) -> object:
    (forward, scores) = Attention.forward, Attention.scores
    patch.setattr(Attention, "forward", lambda self, x, injection, mask: forward(self, x, Injection(), mask))
    patch.setattr(Attention, "scores", lambda self, x, injection, mask: scores(self, x, Injection(), mask))
    return "alibi"


@mutant("one method")
def a_second_encoding_left_on(patch: Patch) -> object:
    queries_and_keys = Attention.queries_and_keys

    def also_rotated(self, x, injection):
        place = torch.arange(x.shape[1]).float()[None, :, None]
        return queries_and_keys(
            self, x, injection + Rotary(width=self.query.out_features // self.num_heads)(place)
        )

    patch.setattr(Attention, "queries_and_keys", also_rotated)
    return "alibi"


@mutant("cache")
def places_from_the_first_new_token(patch: Patch) -> object:
    class FromFirst(Sinusoid):
        pointwise = True  # it is not

        def forward(self, at):
            return super().forward(at - at[:, :1])

    return built(Index(), FromFirst(dim=DIM))


@mutant("float16")
def not_finite_far_from_the_start(patch: Patch) -> object:
    class Undefined(Sinusoid):
        def forward(self, at):
            return Injection(added=super().forward(at).added.masked_fill(at > 1000, torch.nan))

    return built(Index(), Undefined(dim=DIM))


@mutant("bfloat16")
def a_bias_that_is_no_number(patch: Patch) -> object:
    class Undefined(AlibiBias):
        def forward(self, at):
            bias = super().forward(at).dense().bias
            return Injection(bias=bias.masked_fill(bias < -100, torch.nan))

    return built(Index(), Undefined(num_heads=HEADS))


@mutant("gradient")
def a_detached_parameter_of_an_encoding(patch: Patch) -> object:
    class Detached(AlibiBias):
        def __init__(self) -> None:
            super().__init__(num_heads=HEADS)
            self.weight = nn.Parameter(torch.ones(1))

        def forward(self, at):
            return Injection(bias=super().forward(at).dense().bias * self.weight.detach())

    return built(Index(), Detached())


@mutant("deterministic")
def jitter_left_on(patch: Patch) -> object:
    class Always(Jitter):
        training = property(lambda self: True, lambda self, value: None)

    return built(Always(Index()), Sinusoid(dim=DIM))


@mutant("state dict")
def a_number_that_is_not_saved(patch: Patch) -> object:
    class Drawn(AlibiBias):
        def __init__(self) -> None:
            super().__init__(num_heads=HEADS)
            self.drawn = torch.rand(1)

        def forward(self, at):
            return Injection(bias=super().forward(at).dense().bias * self.drawn)

    return like("alibi", lambda: built(Index(), Drawn()))


@mutant("compile")
def a_branch_on_values(patch: Patch) -> object:
    class Looking(Sinusoid):
        def forward(self, at):
            return super().forward(at if float(at.max()) > 3 else at + 1e-3)

    return built(Index(), Looking(dim=DIM))


@mutant("export")
def values_through_a_list(patch: Patch) -> object:
    class Listing(Sinusoid):
        def forward(self, at):
            return super().forward(
                torch.tensor([[[max(place, 0.0)] for (place,) in row] for row in at.tolist()])
            )

    return built(Index(), Listing(dim=DIM))


@mutant("formula")
def rotated_the_other_way(patch: Patch) -> object:
    right = backbone.cos_and_sin
    patch.setattr(backbone, "cos_and_sin", lambda angles, *rest: right(-angles, *rest))
    return "rope"


@mutant("formula")
def a_bias_transposed(patch: Patch) -> object:
    class Transposed(T5Bias):
        def forward(self, at):
            return Injection(bias=super().forward(at).dense().bias.transpose(-1, -2))

    return like("t5", lambda: built(Index(), Transposed(num_heads=HEADS)))


@mutant("formula")
def buckets_off_by_one(patch: Patch) -> object:
    bucket = T5Bias.bucket
    patch.setattr(T5Bias, "bucket", lambda self, offset: bucket(self, offset + 1))
    return "t5"


@mutant("formula")
def positions_from_one(patch: Patch) -> object:
    class FromOne(Index):
        def forward(self, vectors, mask, positions=None):
            return super().forward(vectors, mask, positions) + 1

    return like("sinusoidal", lambda: built(FromOne(), Sinusoid(dim=DIM)))


@mutant("formula")
def a_stretch_of_keys_forgotten(patch: Patch) -> object:
    right = backbone.cos_and_sin

    def of_queries(angles, stretch, dtype):
        return right(angles, stretch if stretch is None or float(stretch.sum()) < 0 else None, dtype)

    patch.setattr(backbone, "cos_and_sin", of_queries)
    return "xpos"


TRACED = ("a_branch_on_values", "values_through_a_list")


@pytest.mark.parametrize("name", [name for name in MUTANTS if name not in TRACED])
def test_a_fault_is_found_by_its_law(name: str, monkeypatch: Patch) -> None:
    law, make = MUTANTS[name]
    (row,) = broken(make(monkeypatch), law)
    assert row.detail


@pytest.mark.long
@pytest.mark.slow
def test_a_fault_is_found_where_a_model_is_traced() -> None:
    """In a process without the tests' check of types; there a sound method passes."""
    code = f"""
import contextlib, json, sys, types
sys.modules["conftest"] = types.SimpleNamespace(unchecked=contextlib.nullcontext)
sys.path.insert(0, {str(Path(__file__).parent)!r})
import test_conformance as tests
from vnait.positions.conformance_suite import conformance
mutants = [tests.MUTANTS[name] for name in tests.TRACED]
rows = [row for law, make in mutants for row in tests.broken(make(None), law)]
assert tests.broken(tests.built(tests.Index(), tests.Sinusoid(dim=32)), "compile", "export") == []
print(json.dumps([[row.law, row.detail] for row in rows]))
"""
    assert [law for law, _ in json.loads(python(code))] == ["compile", "export"]


def test_every_law_finds_a_fault() -> None:
    assert {law for law, _ in MUTANTS.values()} == set(LAWS)
    assert len(MUTANTS) >= 25


def test_mutants_without_their_fault_are_sound() -> None:
    """A law finds the fault, not the rest of the mutant."""
    sound = [
        built(Index(), Sinusoid(dim=DIM)),
        built(Span(source="uniform"), Sinusoid(dim=DIM)),
        built(Running(source="content", dim=DIM), Rotary(width=16)),
        built(Jitter(PerSentence()), Sinusoid(dim=DIM)),
    ]
    for method in sound:
        assert broken(method, *sorted(set(LAWS) - {"bfloat16", "float16", "compile", "export"})) == []


# --- Peers

# Known before, or plain from their code: peer, law, and detail.
FAULTS = [
    ("rotary-embedding-torch:rope", "bfloat16", r"words in bfloat16: token 257 of 8192"),
    ("rotary-embedding-torch:rope", "float16", r"words in float16: token 2049 of 8192"),
    ("rotary-embedding-torch:rope", "no trace", r"258 tokens, after the same call in bfloat16"),
    ("rotary-embedding-torch:xpos", "prefix", r"the first 1 of 2 tokens"),
    ("rotary-embedding-torch:xpos", "deterministic", r"1 tokens, after a call of 2"),
    ("x-transformers:rope", "bfloat16", r"the module in bfloat16"),
    ("x-transformers:sinusoidal", "bfloat16", r"neighbours alike"),
    ("x-transformers:sinusoidal", "left padding", r"einsum"),
    ("x-transformers:model-alibi", "one method", r"the order still matters"),
    ("positional-encodings:1d", "float16", r"the module in float16"),
    ("positional-encodings:1d", "no trace", r"2 tokens"),
    ("positional-encodings:1d", "left padding", r"1 token and 1 of padding"),
    ("transformers:llama-rope", "gradient", r"the gradient is None"),
    ("transformers:llama-rope", "bfloat16", r"the module in bfloat16"),
    ("transformers:bert-bias-eager", "order", r"another order changes nothing"),
    ("transformers:bert-learned", "past the longest", r"65 tokens, longest 64"),
]
# What they do right, by the same adapters: the laws don't fail everything.
RIGHT = [
    (
        "rotary-embedding-torch:rope",
        ("formula", "translation", "prefix", "fractional", "gradient", "left padding"),
    ),
    ("x-transformers:rope", ("formula", "translation", "prefix", "gradient", "a text's own")),
    ("x-transformers:alibi", ("formula", "translation", "bfloat16", "gradient")),
    ("x-transformers:t5", ("formula", "translation", "left padding")),
    ("x-transformers:learned", ("formula", "left padding", "past the longest", "a text's own")),
    ("x-transformers:sinusoidal", ("formula", "prefix", "gradient")),
    ("x-transformers:model-rope", ("one method", "order", "left padding")),
    ("positional-encodings:1d", ("formula", "prefix", "odd width")),
    ("transformers:llama-rope", ("formula", "translation", "a text's own", "no trace")),
    ("transformers:bloom-alibi", ("formula", "left padding", "right padding")),
    ("transformers:t5", ("formula", "translation")),
    ("transformers:bert-learned", ("one method", "left padding", "order")),
    ("transformers:bert-bias-sdpa", ("one method", "order", "right padding")),
    ("transformers:m2m-sinusoidal", ("left padding", "prefix", "no trace")),
]


def needs(peer: str) -> None:
    library = peer.partition(":")[0]
    pytest.importorskip(
        peers.LIBRARIES[library], reason=f"{library} is not installed: pip install 'vnait[peers]'"
    )


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(("peer", "law", "detail"), FAULTS, ids=[f"{peer} {law}" for peer, law, _ in FAULTS])
def test_a_known_fault_of_a_peer_is_found(peer: str, law: str, detail: str) -> None:
    needs(peer)
    (row,) = broken(peer, law)
    assert re.search(detail, row.detail)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(("peer", "laws"), RIGHT, ids=[peer for peer, _ in RIGHT])
def test_a_peer_keeps_other_laws(peer: str, laws: tuple[str, ...]) -> None:
    needs(peer)
    with unchecked():
        assert [row.passed for row in conformance(peer, laws=laws)] == [True] * len(laws)


# --- Arguments


def test_rows_make_a_table() -> None:
    rows = conformance("alibi", laws=["order", "prefix"])
    assert rows == [Row("alibi", "order", True, ""), Row("alibi", "prefix", True, "")]
    assert list(pd.DataFrame(rows)) == ["implementation", "law", "passed", "detail"]
    assert vnait.conformance is conformance


@pytest.mark.parametrize(
    "part", [Running(source="content", dim=16), Elastic(Gate(dim=16))], ids=lambda part: type(part).__name__
)
def test_coordinates_of_words_are_tried_with_vectors_of_their_width(part: nn.Module) -> None:
    (row,) = conformance(part, laws=["left padding"])
    assert row.passed, row.detail


def test_parts_of_a_method_can_be_tried() -> None:
    laws = ["order", "formula", "odd width", "past the longest"]
    encoding = conformance(AlibiBias(num_heads=4), laws=laws)
    assert [row.passed for row in encoding] == [True, None, None, True]
    assert {row.implementation for row in encoding} == {"AlibiBias"}
    assert [row.passed for row in conformance(Span(source="uniform"), laws=laws)] == [True, None, None, True]
    assert [row.passed for row in conformance(Rotary(width=6), laws=laws)] == [True, None, None, True]
    assert conformance(Table(dim=6, max_length=64), laws=laws)[3].passed
    method = built(Index(), Sinusoid(dim=6))
    (row,) = conformance(method, laws=["order"])
    assert row.implementation == "Index x Sinusoid"
    assert [
        row.passed
        for row in conformance(built(Grid(shape=(2, 2)), AlibiBias(num_heads=2)), laws=["one token"])
    ] == [None]


def test_it_leaves_the_random_generators_as_they_were() -> None:
    torch.manual_seed(3)
    expected = torch.rand(1)
    torch.manual_seed(3)
    conformance("none", laws=["left padding"])
    assert torch.equal(torch.rand(1), expected)


def test_a_refusal_is_not_a_failure() -> None:
    (row,) = conformance(built(Grid(shape=(2, 2)), Sinusoid(dim=8)), laws=["left padding"])
    assert row.passed is None
    assert row.detail.startswith(
        "refused: row 0 of the batch has 1 real tokens, and the grid of shape (2, 2) has 4 cells"
    )
    (row,) = conformance(Table(dim=6, max_length=64), laws=["bfloat16"])
    assert "max_length=64" in row.detail


def test_wrong_input_is_refused(monkeypatch: Patch) -> None:
    with pytest.raises(
        InputError,
        match=r"'ropee' is neither a method nor an implementation that a plugin adds. Did you mean 'rope'\? "
        "Take one of ours, none, sinu",
    ):
        conformance("ropee")
    with pytest.raises(
        InputError, match=r"the law 'prefixes' is not known. Did you mean 'prefix'\? Take one of bfloat16"
    ):
        conformance("rope", laws=["prefixes"])
    with pytest.raises(InputError, match=r"Index is a type; give an object of it, Index\(\.\.\.\)"):
        conformance(Index)

    class Own(nn.Module):
        def forward(self, vectors: Tensor | None, mask: Tensor) -> Tensor:
            return mask[..., None].float()

    with pytest.raises(TypeError, match="the coordinates Own must have causal and per_sentence"):
        conformance(Own())
    with pytest.raises(
        ValueError, match=r"a probe makes no claims; put it into a vnait.positions.conformance_suite.Subject"
    ):
        conformance(subjects("rope")[0].probe())
    monkeypatch.setattr(peers, "find_spec", lambda name: None)
    with pytest.raises(
        InputError, match=r"x-transformers:rope needs x-transformers.*pip install 'vnait\[peers\]'"
    ):
        conformance("x-transformers:rope")
    assert conformance("peers") == []


def test_every_law_has_a_sentence() -> None:
    assert all(law.sentence.endswith(".") and len(law.sentence) < 130 for law in LAWS.values())


# --- The command


def run(*arguments: str) -> int:
    try:
        with unchecked():
            cli.main(["conformance", *arguments])
    except SystemExit as left:
        return int(left.code or 0)
    return 0


def test_the_command_prints_one_document_and_exits_1_on_a_failure(
    capsys: pytest.CaptureFixture, monkeypatch: Patch
):
    some = {name: LAWS[name] for name in ("order", "translation")}
    monkeypatch.setattr("vnait.positions.conformance_suite.LAWS", some)
    assert run("alibi", "sinusoidal", "alibi", "--json") == 0
    rows = json.loads(capsys.readouterr().out)["rows"]
    assert rows == [asdict(row) for name in ("alibi", "sinusoidal") for row in conformance(name)]
    right = backbone.cos_and_sin
    monkeypatch.setattr(backbone, "cos_and_sin", lambda angles, *rest: right(angles * angles, *rest))
    assert run("rope", "--quiet") == 1
    out = capsys.readouterr().out
    assert re.search(r"^translation +NO$", out, re.M)
    assert re.search(r"^rope: translation: 2 tokens, all 1 further: attention off by \d", out, re.M)
    assert run("ropes") == 2
    assert capsys.readouterr().err.startswith(
        "vnait: 'ropes' is neither a method nor an implementation that a plugin adds. Did you mean 'rope'?"
    )


def test_the_table_fits_80_columns(capsys: pytest.CaptureFixture, monkeypatch: Patch) -> None:
    monkeypatch.delenv("COLUMNS", raising=False)
    names = [*METHODS, *peers.PEERS]
    rows = [Row(name, law, [True, False, None][len(name) % 3], "why") for name in names for law in LAWS]
    terminal.show_conformance(rows)
    table, _, after = capsys.readouterr().out.partition(f"\n{names[0]}")[0].partition("none: bfloat16")
    lines = table.splitlines()
    assert max(map(cell_len, lines)) <= 80
    assert table.count("past the longest") == table.count("law   ")
    assert sum(
        len(re.findall(r"\b(?:yes|NO)\b|(?<= )-(?= |$)", line)) for line in lines if line.startswith("order")
    ) == len(names)
    assert after == "" or after.startswith(":")
