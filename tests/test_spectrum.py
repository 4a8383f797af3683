"""The spectrum of a path, a grid, any graph and a batch of graphs: against scipy and networkx, canonical
whatever the solver, padding, messages.
"""

from __future__ import annotations

import copy
import logging
import math
import pickle
from collections.abc import Callable

import networkx as nx
import numpy as np
import pytest
import scipy.fft
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from conftest import unchecked
from helpers import everything, python
from vnait import Method
from vnait.positions.coordinates import Index, Spectrum, returns, spectra
from vnait.positions.encodings import Linear


def weighted() -> nx.Graph:
    graph = nx.Graph()
    graph.add_weighted_edges_from(
        [("d", "a", 0.5), ("a", "b", 3.0), ("b", "c", 1.0), ("c", "d", 0.25), ("c", "e", 7.0)]
    )
    graph.add_edge("e", "e", weight=9.0)  # a loop
    return graph


TURN = 2 * math.pi

# A graph, and a size that cuts no eigenspace.
GRAPHS: dict[str, tuple[Callable[[], nx.Graph], int]] = {
    "karate": (nx.karate_club_graph, 7),
    "les miserables": (nx.les_miserables_graph, 4),
    "grid": (lambda: nx.grid_2d_graph(4, 4), 5),
    "cycle": (lambda: nx.cycle_graph(12), 6),
    "complete": (lambda: nx.complete_graph(6), 5),
    "hypercube": (lambda: nx.hypercube_graph(3), 6),
    "star": (lambda: nx.star_graph(5), 4),
    "path": (lambda: nx.path_graph(9), 4),
    "weighted": (weighted, 3),
    "in three parts": (
        lambda: nx.disjoint_union_all([nx.path_graph(3), nx.cycle_graph(4), nx.complete_graph(2)]),
        6,
    ),
}
EVERY = pytest.mark.parametrize("name", list(GRAPHS))


def drawn(name: str) -> tuple[nx.Graph, Spectrum, Tensor]:
    """A graph, its part, and the coordinates of its nodes (N, size)."""
    graph, size = GRAPHS[name][0](), GRAPHS[name][1]
    part = Spectrum(size=size, graph=graph)
    return graph, part, part(None, everything(len(graph)))[0]


def laplacian(graph: nx.Graph) -> Tensor:
    return torch.tensor(nx.laplacian_matrix(graph).toarray(), dtype=torch.float64)


def assert_orthogonal_to_each_other_and_to_ones(at: Tensor) -> None:
    """With a mean square of 1."""
    size = at.shape[-1]
    torch.testing.assert_close(at.T @ at / len(at), torch.eye(size, dtype=torch.float64), rtol=0, atol=1e-12)
    assert at.mean(0).abs().max() < 1e-12


# --- The path of the sentence's own tokens


@pytest.mark.parametrize("length", [2, 3, 64, 1000])
def test_a_path_is_the_cosine_transform(length: int) -> None:
    size = min(length - 1, 40)
    at = Spectrum(size=size)(None, everything(length))[0]
    cosines = scipy.fft.dct(torch.eye(length, dtype=torch.float64).numpy(), type=2, norm="ortho", axis=0)[
        1 : size + 1
    ]
    inner = (torch.tensor(cosines) * at.T / math.sqrt(length)).sum(-1)
    assert (inner >= 1 - 1e-12).all()
    assert_orthogonal_to_each_other_and_to_ones(at)


@given(length=st.integers(1, 30), size=st.integers(1, 40))
@settings(max_examples=40)
def test_a_path_is_its_formula_and_has_no_more_vectors_than_tokens(length: int, size: int) -> None:
    at = Spectrum(size=size)(None, everything(length))[0]
    for k in range(1, size + 1):
        wave = [
            math.sqrt(2) * math.cos(math.pi * k * (i + 0.5) / length) if k < length else 0
            for i in range(length)
        ]
        torch.testing.assert_close(at[:, k - 1], torch.tensor(wave, dtype=torch.float64), rtol=0, atol=1e-12)


@given(
    rows=st.lists(
        st.tuples(st.integers(0, 4), st.integers(1, 12), st.integers(0, 4)), min_size=1, max_size=3
    ),
    size=st.integers(1, 6),
)
@settings(max_examples=30)
def test_a_sentences_length_alone_decides(rows: list[tuple[int, int, int]], size: int) -> None:
    part = Spectrum(size=size)
    mask = torch.zeros(len(rows), max(map(sum, rows)), dtype=torch.bool)
    for row, (before, length, _) in enumerate(rows):
        mask[row, before : before + length] = True
    at = part(None, mask)
    for row, (before, length, _) in enumerate(rows):
        assert torch.equal(at[row, mask[row]], part(None, everything(length))[0])
        assert (at[row, :before] == at[row, before]).all()
        assert (at[row, before + length :] == at[row, before + length - 1]).all()


def test_neighbours_stay_apart_in_a_long_text() -> None:
    at = Spectrum(size=1)(None, everything(100_000))[0, :, 0]
    assert (at.diff() < 0).all()


def test_a_path_looks_ahead() -> None:
    part = Spectrum(size=2)
    assert not part.causal and not part.per_sentence and part.eigenvalues is None
    assert not torch.allclose(part(None, everything(4)), part(None, everything(8))[:, :4])


# --- A graph


@EVERY
def test_eigenvectors_of_networkxs_laplacian(name: str) -> None:
    graph, part, at = drawn(name)
    residual = laplacian(graph) @ at - at * part.eigenvalues
    assert residual.abs().max() < 1e-10 * len(graph)
    assert_orthogonal_to_each_other_and_to_ones(at)
    torch.testing.assert_close(
        part.eigenvalues, torch.linalg.eigvalsh(laplacian(graph))[1 : part.size + 1], rtol=0, atol=1e-10
    )


@EVERY
def test_the_same_whatever_basis_the_solver_finds(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Signs flipped, and every eigenspace turned at random."""
    _, _, expected = drawn(name)
    solve = torch.linalg.eigh
    for seed in range(3):
        generator = torch.Generator().manual_seed(seed)

        def turned(matrix: Tensor, generator: torch.Generator = generator) -> tuple[Tensor, Tensor]:
            values, vectors = solve(matrix)
            for value in values:
                space = (values - value).abs() < 1e-9
                noise = torch.randn(
                    int(space.sum()), int(space.sum()), dtype=torch.float64, generator=generator
                )
                vectors[:, space] = vectors[:, space] @ torch.linalg.qr(noise).Q
            return values, vectors

        with monkeypatch.context() as patch:
            patch.setattr(torch.linalg, "eigh", turned)
            torch.testing.assert_close(drawn(name)[2], expected, rtol=0, atol=1e-9)


def test_the_largest_entry_is_positive_and_the_first_of_equals() -> None:
    """Of an eigenspace of one dimension; a cycle's plane starts at node 0, a star's at its first leaf."""
    _, _, at = drawn("karate")
    assert (at.gather(0, at.abs().argmax(0, keepdim=True)) > 0).all()
    path = drawn("path")[2]
    assert path[0, 0] == path[:, 0].max() and path[4, 1] == path[:, 1].max()
    wave = torch.tensor(
        [[math.cos(TURN * i / 12), math.sin(TURN * i / 12)] for i in range(12)], dtype=torch.float64
    )
    torch.testing.assert_close(drawn("cycle")[2][:, :2], math.sqrt(2) * wave, rtol=0, atol=1e-12)
    assert drawn("star")[2][1, 0] == drawn("star")[2].max()


def test_other_names_and_another_order_of_the_edges_change_nothing() -> None:
    graph, part, at = drawn("karate")
    other = nx.Graph()
    other.add_nodes_from(f"member {node}" for node in graph)
    edges = [(f"member {b}", f"member {a}", weight) for a, b, weight in graph.edges(data="weight")]
    other.add_weighted_edges_from(reversed(edges))
    again = Spectrum(size=part.size, graph=other)(None, everything(34))[0]
    torch.testing.assert_close(again, at, rtol=0, atol=1e-9)


def test_the_tokens_are_the_nodes_in_the_graphs_own_order() -> None:
    """Of the same path, told from its other end; a missing weight is 1, and so is each of parallel edges."""
    path = nx.Graph([(2, 1), (1, 0)])
    assert list(path) == [2, 1, 0]
    torch.testing.assert_close(
        Spectrum(size=2, graph=path)(None, everything(3)).abs(), Spectrum(size=2)(None, everything(3)).abs()
    )
    path.add_edge(7, 2)
    hub = nx.Graph()
    hub.add_nodes_from([0, 1, 2, 7])
    hub.add_edges_from(path.edges)
    line = Spectrum(size=1, graph=hub)(None, everything(4))[0, :, 0]
    assert (line[[0, 1, 2, 3]].diff().sign() == line.diff().sign()[0]).all()
    double = nx.MultiGraph([(0, 1), (0, 1), (1, 2)])
    simple = nx.Graph()
    simple.add_weighted_edges_from([(0, 1, 2.0), (1, 2, 1.0)])
    assert torch.equal(Spectrum(size=2, graph=double).nodes, Spectrum(size=2, graph=simple).nodes)


def test_the_parts_of_a_graph_are_separated_first() -> None:
    graph, part, at = drawn("in three parts")
    torch.testing.assert_close(part.eigenvalues[:2], torch.zeros(2, dtype=torch.float64), rtol=0, atol=1e-12)
    seen = [at[sorted(nodes), :2] for nodes in nx.connected_components(graph)]
    assert all((nodes - nodes[0]).abs().max() < 1e-10 for nodes in seen)
    assert torch.cdist(*[torch.stack([nodes[0] for nodes in seen])] * 2).fill_diagonal_(1).min() > 0.5
    assert Spectrum(size=2, graph=nx.empty_graph(3)).eigenvalues.tolist() == [0, 0]


@pytest.mark.parametrize("size", [7, 5])
def test_padding_stands_at_the_nearest_node(size: int) -> None:
    graph = nx.karate_club_graph()
    part = Spectrum(size=size, graph=graph)
    mask = torch.zeros(2, 40, dtype=torch.bool)
    mask[0, :34] = mask[1, 4:38] = True
    at = part(torch.randn(2, 40, 3).bfloat16(), mask)
    for row in range(2):
        assert torch.equal(at[row, mask[row]], part(None, everything(34))[0])
    assert (
        (at[0, 34:] == at[0, 33]).all() and (at[1, :4] == at[1, 4]).all() and (at[1, 38:] == at[1, 37]).all()
    )


def test_built_anew_never_saved_never_in_half_and_never_on_meta() -> None:
    graph = nx.karate_club_graph()
    part = Spectrum(size=7, graph=graph)
    expected = part(None, everything(34))
    assert part.state_dict() == {} and expected.dtype == torch.float64
    with torch.device("meta"):
        meta = [Spectrum(size=7, graph=graph), Spectrum(size=2, graph=[2, 17])]
    assert torch.equal(meta[0](None, everything(34)), expected)
    assert torch.equal(meta[1](None, everything(34)), Spectrum(size=2, graph=[2, 17])(None, everything(34)))
    for other in (copy.deepcopy(part), pickle.loads(pickle.dumps(part)), part.bfloat16()):
        assert torch.equal(other(None, everything(34)), expected)


@pytest.mark.long
@pytest.mark.slow
def test_compiled_and_exported() -> None:
    """In a process of its own: the tests' check of types can't be traced."""
    code = """
import torch
from vnait.positions.coordinates import Spectrum
mask = torch.tensor([[False, True, True, True, True, False], [True] * 4 + [False] * 2])
longer = torch.ones(3, 4, dtype=torch.bool)
B, T = torch.export.Dim("B", min=2), torch.export.Dim("T", min=2)
for part in (Spectrum(size=3), Spectrum(size=2, graph=[2, 2])):
    compiled = torch.compile(part, backend="aot_eager", fullgraph=True)
    torch.testing.assert_close(compiled(None, mask), part(None, mask))
    exported = torch.export.export(part, (None, mask), dynamic_shapes=(None, {0: B, 1: T})).module()
    torch.testing.assert_close(exported(None, longer), part(None, longer))
"""
    python(code)


# --- A grid


@settings(max_examples=30)
@given(
    shape=st.lists(st.integers(1, 5), min_size=1, max_size=3).filter(lambda shape: 1 < math.prod(shape) < 60)
)
def test_a_grid_in_closed_form_is_the_graph(shape: list[int]) -> None:
    count = math.prod(shape)
    part = Spectrum(size=count - 1, graph=shape)
    at = part(None, everything(count))[0]
    graph = nx.grid_graph(shape[::-1])  # networkx counts axes from the last
    assert list(graph) == sorted(graph) or len(shape) == 1
    assert (laplacian(graph) @ at - at * part.eigenvalues).abs().max() < 1e-11
    assert_orthogonal_to_each_other_and_to_ones(at)
    assert (part.eigenvalues.diff() > -1e-12).all()


def test_the_axes_of_a_grid() -> None:
    """The long one varies first; in a square and a cube, in the reading order of the frequencies."""

    def first(length: int) -> Tensor:
        return Spectrum(size=1)(None, everything(length))[0, :, 0]

    tall = Spectrum(size=1, graph=[5, 2])(None, everything(10))[0, :, 0].view(5, 2)
    torch.testing.assert_close(tall, first(5)[:, None].expand(5, 2))
    square = Spectrum(size=3, graph=[3, 3])(None, everything(9))[0].view(3, 3, 3)
    torch.testing.assert_close(square[..., 0], first(3).expand(3, 3))
    torch.testing.assert_close(square[..., 1], first(3)[:, None].expand(3, 3))
    torch.testing.assert_close(square[..., 2], first(3) * first(3)[:, None])
    cube = Spectrum(size=26, graph=[3, 3, 3])
    middle = torch.isclose(cube.eigenvalues, torch.tensor(4.0, dtype=torch.float64)).nonzero().flatten()
    at = cube(None, everything(27))[0, :, middle]
    waves = [
        Spectrum(size=2)(None, everything(3))[0, :, k - 1] if k else torch.ones(3).double() for k in range(3)
    ]
    # A path of three has the eigenvalues 0, 1 and 3.
    orders = [(0, 1, 2), (0, 2, 1), (1, 0, 2), (1, 2, 0), (2, 0, 1), (2, 1, 0)]
    expected = [torch.einsum("i,j,k->ijk", *(waves[k] for k in order)).flatten() for order in orders]
    torch.testing.assert_close(at, torch.stack(expected, -1))


def test_a_line_is_a_path_of_a_fixed_length() -> None:
    part = Spectrum(size=4, graph=[5])
    torch.testing.assert_close(part(None, everything(5)), Spectrum(size=4)(None, everything(5)))


# --- A batch of graphs


def test_each_graph_of_a_batch_has_its_own_spectrum() -> None:
    graphs = [nx.path_graph(1), GRAPHS["weighted"][0](), GRAPHS["karate"][0](), nx.path_graph(3)]
    at = spectra(graphs, size=3)
    assert at.shape == (4, 34, 3) and at.dtype == torch.float64
    for graph, row in zip(graphs, at, strict=True):
        own = min(3, len(graph) - 1)
        if own:
            expected = Spectrum(size=own, graph=graph).nodes
            torch.testing.assert_close(row[: len(graph), :own], expected, rtol=0, atol=1e-12)
        assert (row[:, own:] == 0).all() and (row[len(graph) :] == 0).all()


def test_a_batch_has_no_part_of_an_eigenspace(caplog: pytest.LogCaptureFixture) -> None:
    """Its vectors of a 12-cycle come in pairs: an odd size cuts one."""
    cycle = nx.cycle_graph(12)
    two, three = (spectra([cycle], size=size)[0] for size in (2, 3))
    assert torch.equal(three[:, :2], two) and (two != 0).any() and (three[:, 2] == 0).all()
    assert (spectra([nx.complete_graph(4)], size=2) == 0).all()
    assert not caplog.records


def test_returns_are_those_of_the_walk() -> None:
    graph = weighted()
    links = nx.to_numpy_array(graph)
    np.fill_diagonal(links, 0)  # loops are left out
    walk = links / links.sum(1, keepdims=True)
    found = returns([graph, nx.empty_graph(2)], steps=[2, 5])
    assert found.shape == (2, 5, 2)
    for axis, steps in enumerate((2, 5)):
        expected = torch.tensor(np.linalg.matrix_power(walk, steps).diagonal().copy())
        torch.testing.assert_close(found[0, :, axis], expected, rtol=0, atol=1e-12)
    assert (found[1, :2] == 1).all() and (found[1, 2:] == 0).all()


def test_a_method_reads_a_batch_of_graphs() -> None:
    graphs = [nx.path_graph(5), nx.cycle_graph(3)]
    mask = torch.tensor([[True] * 5, [True] * 3 + [False] * 2])
    method = Method(coordinates=Index(), encoding=Linear(dim=8, axes=2))
    words = torch.randn(2, 5, 8)
    alone = method(words[1:, :3], mask[1:, :3], spectra(graphs[1:], size=2))
    batch = method(words, mask, spectra(graphs, size=2))
    torch.testing.assert_close(batch.x[1, :3], alone.x[0])
    assert not torch.equal(batch.x[0, 0] - words[0, 0], batch.x[0, 1] - words[0, 1])


# --- Messages


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Spectrum(size=0), "size=0; take at least 1 eigenvector"),
        (
            lambda: Spectrum(size=4, graph=nx.path_graph(4)),
            "size=4, and a graph of 4 nodes has 3 non-constant",
        ),
        (lambda: Spectrum(size=6, graph=[2, 3]), "size=6, and a graph of 6 nodes has 5 non-constant"),
        (lambda: Spectrum(size=1, graph=nx.Graph()), "size=1, and a graph of 0 nodes has 0 non-constant"),
        (lambda: Spectrum(size=1, graph=[]), r"graph=\(\); a grid has one or more positive sizes"),
        (lambda: Spectrum(size=1, graph=[-1, 2]), r"graph=\(-1, 2\); a grid has one or more positive sizes"),
        (
            lambda: Spectrum(size=1, graph=nx.DiGraph([(0, 1)])),
            r"the graph is directed.* graph.to_undirected\(\)",
        ),
        *(
            (
                lambda weight=weight: Spectrum(size=1, graph=nx.Graph([("a", "b", {"weight": weight})])),
                f"the edge 'a' - 'b' has the weight {weight}; expected 0 or more, and finite",
            )
            for weight in (-1.0, math.nan, math.inf)
        ),
        (lambda: spectra([nx.path_graph(2)], size=0), "size=0; take at least 1 eigenvector"),
        (lambda: spectra([], size=1), "there are no graphs; give one or more"),
        (lambda: returns([nx.DiGraph([(0, 1)])], steps=[2]), "the graph is directed"),
        (
            lambda: returns([nx.path_graph(2)], steps=[2, 0]),
            r"steps=\[2, 0\]; give one or more whole numbers",
        ),
    ],
)
def test_messages(make: Callable[[], object], message: str) -> None:
    with unchecked(), pytest.raises(ValueError, match=message):
        make()


@pytest.mark.parametrize("graph", [[2, 3], nx.cycle_graph(6)], ids=["grid", "graph"])
def test_a_sentence_that_is_not_the_graphs(graph: object) -> None:
    mask = torch.tensor([[True] * 6, [False] + [True] * 5])
    with pytest.raises(
        ValueError, match="row 1 of the batch has 5 real tokens, and the graph has 6 nodes; give a token"
    ):
        Spectrum(size=2, graph=graph)(None, mask)


def test_a_row_without_a_real_token() -> None:
    with pytest.raises(ValueError, match="row 1 of the batch has no real token"):
        Spectrum(size=1)(None, torch.tensor([[True], [False]]))


@pytest.mark.parametrize(
    ("graph", "size", "advice"),
    [
        (nx.cycle_graph(8), 1, "take size=2."),
        (nx.cycle_graph(8), 5, "take size=4 or 6."),
        ([3, 3], 1, "take size=2."),
        (nx.empty_graph(4), 2, "take size=3."),
        (nx.complete_graph(5), 3, "take size=4."),
    ],
)
def test_an_eigenspace_that_is_cut_is_logged(
    graph: object, size: int, advice: str, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.WARNING, logger="vnait"):
        Spectrum(size=size, graph=graph)
    (message,) = caplog.messages
    assert message.startswith(
        f"eigenvalues {size} and {size + 1} of the graph are equal ("
    ) and message.endswith(advice)
    assert f"so which of their eigenvectors size={size} keeps is arbitrary" in message


@EVERY
def test_nothing_is_logged_where_eigenspaces_are_whole(name: str, caplog: pytest.LogCaptureFixture) -> None:
    drawn(name)
    assert not caplog.messages


def test_repr_of_parts() -> None:
    assert repr(Spectrum(size=3)) == "Spectrum(size=3)"
    assert repr(Spectrum(size=2, graph=[3, 3])) == "Spectrum(size=2, nodes=9)"


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: spectra(nx.path_graph(3), size=1), "one graph was given; put it into a list"),
        (lambda: returns([nx.path_graph(3)], steps=[1.5]), "give one or more whole numbers of steps"),
        (lambda: returns([nx.Graph([(0, 1, {"weight": None})])], steps=[1]), "has the weight None"),
    ],
)
def test_wrong_graphs_are_named(make: Callable[[], object], message: str) -> None:
    with unchecked(), pytest.raises(ValueError, match=message):
        make()
