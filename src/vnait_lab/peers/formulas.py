"""The papers' formulas as loops over Python floats, without tensors, for the law `formula`."""

import math
from collections.abc import Callable
from operator import mul
from typing import Any

from vnait.positions.conformance_suite.subjects import Expected, Formula, Rows


def sinusoid(place: float, dim: int, base: float = 10_000.0) -> list[float]:
    """PE[p, 2i] = sin(p / base^(2i/D)), PE[p, 2i+1] = cos(p / base^(2i/D))."""
    code = []
    for channel in range(dim):
        angle = place / base ** (2 * (channel // 2) / dim)
        code.append(math.cos(angle) if channel % 2 else math.sin(angle))
    return code


def angles(place: float, width: int, base: float = 10_000.0) -> list[float]:
    """RoPE: p base^(-2k/K)."""
    return [place * base ** (-2 * k / width) for k in range(width // 2)]


def slopes(heads: int) -> list[float]:
    """ALiBi for a power of two: 2^(-8h/H), h = 1 ... H."""
    return [2.0 ** (-8 * (head + 1) / heads) for head in range(heads)]


def bucket(offset: int, buckets: int = 32, longest: int = 128) -> int:
    """T5's bucket of key - query, in both directions."""
    half = buckets // 2
    first, distance, exact = half if offset > 0 else 0, abs(offset), half // 2
    if distance < exact:
        return first + distance
    log = exact + int(math.log(distance / exact) / math.log(longest / exact) * (half - exact))
    return first + min(log, half - 1)


def _bias(probe: Any, at: Rows, number: Callable[[int, int, int], float]) -> Expected:
    """A bias from a function of head, query and key."""
    tokens, heads = range(len(at)), range(_heads(probe))
    return Expected(
        bias=[[[number(head, query, key) for key in tokens] for query in tokens] for head in heads]
    )


def _added(at: Rows, code: Callable[[int], list[float]]) -> Expected:
    return Expected(added=[code(i) for i in range(len(at))])


def _dim(probe: Any) -> int:
    return probe.attention.query.in_features


def _heads(probe: Any) -> int:
    return probe.attention.num_heads


def _width(probe: Any) -> int:
    return probe.attention.query.out_features // _heads(probe)


def _sinusoidal(probe: Any, at: Rows) -> Expected:
    return _added(at, lambda i: sinusoid(i, _dim(probe)))


def _learned_frequencies(probe: Any, at: Rows) -> Expected:
    changes, dim = probe.method.encoding.change.tolist(), _dim(probe)

    def code(i: int) -> list[float]:
        angle = [i * math.exp(change) / 10_000 ** (2 * k / dim) for k, change in enumerate(changes)]
        return [math.cos(angle[k // 2]) if k % 2 else math.sin(angle[k // 2]) for k in range(dim)]

    return _added(at, code)


def _means(probe: Any, count: int) -> list[float]:
    """Means of sorted draws below the limit: evenly spaced."""
    limit = probe.method.coordinates.limit
    return [k * (limit + 1) / (count + 1) - 1 for k in range(1, count + 1)]


def _rope(probe: Any, at: Rows, factor: float = 1.0) -> Expected:
    return Expected(rotary=[angles(i / factor, _width(probe)) for i in range(len(at))])


def _half_rotary(probe: Any, at: Rows) -> Expected:
    """The first half of RoPE's pairs, from 1 radian down to nearly 1/1024; the others stay."""
    half = _width(probe) // 4
    return Expected(
        rotary=[
            [i / 1024 ** (k / half) if k < half else 0.0 for k in range(2 * half)] for i in range(len(at))
        ]
    )


def _scale_invariant(probe: Any, at: Rows) -> Expected:
    """a_t s + m_t for t = |i - j|, written as the paper's equation 16, with alpha = beta."""

    def change(head: int, queries: Rows, keys: Rows, scores: Rows) -> Rows:
        return [[new(s, abs(i - j)) for j, s in enumerate(row)] for i, row in enumerate(scores)]

    def new(score: float, t: int) -> float:
        a = math.sqrt(2 * (math.log(t / 10 + 1) - math.log(math.sqrt(math.e)) + 1))
        return a * score + (-(a**2) + 1)

    return Expected(rotary=_half_rotary(probe, at).rotary, score_mod=change)


def _cope(probe: Any, at: Rows) -> Expected:
    """Gates are summed from the key to the query; the query reads two rows of a table, and lies between."""
    encoding = probe.method.encoding
    before, after = encoding.before.tolist(), encoding.after.tolist()

    def product(query: list[float], table: Rows, place: float) -> float:
        low, high = math.floor(place), math.ceil(place)
        ends = [sum(q * e for q, e in zip(query, table[row], strict=True)) for row in (low, high)]
        return ends[0] + (place - low) * (ends[1] - ends[0])

    def change(head: int, queries: Rows, keys: Rows, scores: Rows) -> Rows:
        return [
            [score + product(query, *position(row, i, j)) for j, score in enumerate(row)]
            for i, (query, row) in enumerate(zip(queries, scores, strict=True))
        ]

    def position(row: list[float], i: int, j: int) -> tuple[Rows, float]:
        gates = [1 / (1 + math.exp(-score)) for score in row[min(i, j) : max(i, j) + 1]]
        return before if j <= i else after, min(sum(gates), len(before) - 1)

    return Expected(score_mod=change)


def _fox(probe: Any, at: Rows) -> Expected:
    """Each pair's gates are multiplied, one by one, and the logarithm is added."""
    encoding = probe.method.encoding
    weight, bias = encoding.weight.tolist(), encoding.bias.tolist()

    def change(head: int, queries: Rows, keys: Rows, scores: Rows) -> Rows:
        gates = [1 / (1 + math.exp(-sum(map(mul, key, weight[head])) - bias[head])) for key in keys]
        return [
            [s + math.log(math.prod(gates[min(i, j) + 1 : max(i, j) + 1])) for j, s in enumerate(row)]
            for i, row in enumerate(scores)
        ]

    return Expected(score_mod=change)


def _nape(probe: Any, at: Rows) -> Expected:
    """The threshold is found by bisection: the squares above it sum to 1."""
    encoding, heads = probe.method.encoding, _heads(probe)
    beta, gamma = encoding.beta.tolist(), encoding.gamma.tolist()

    def change(head: int, queries: Rows, keys: Rows, scores: Rows) -> Rows:
        return [
            weights([value(head, query, score, i - j) for j, score in enumerate(row)])
            for i, (query, row) in enumerate(zip(queries, scores, strict=True))
        ]

    def value(head: int, query: list[float], score: float, d: int) -> float:
        if head < heads // 2:
            return score - abs(d) / (head + 1)
        number = head - heads // 2
        b, c = (sum(q * w for q, w in zip(query, part[number], strict=True)) for part in (beta, gamma))
        size = math.log(len(at) + 1)
        return score * (1 + math.log1p(math.exp(b)) * size ** (2 * math.tanh(c)))

    def weights(row: list[float]) -> list[float]:
        half = [score / 2 for score in row]
        low, high = max(half) - 1, max(half)
        for _ in range(200):
            tau = (low + high) / 2
            low, high = (tau, high) if sum(max(0, z - tau) ** 2 for z in half) > 1 else (low, tau)
        return [2 * math.log(max(z - tau, 1e-19)) for z in half]

    return Expected(score_mod=change)


def _xpos(probe: Any, at: Rows) -> Expected:
    width = _width(probe)
    logs = [math.log((2 * k / width + 0.4) / 1.4) for k in range(width // 2)]
    stretch = [[i / 512 * log for log in logs] for i in range(len(at))]
    return Expected(rotary=_rope(probe, at).rotary, stretch=stretch)


def _alibi(probe: Any, at: Rows) -> Expected:
    m = slopes(_heads(probe))
    return _bias(probe, at, lambda head, query, key: -m[head] * abs(query - key))


def _t5(probe: Any, at: Rows) -> Expected:
    table = probe.method.encoding.weight.tolist()
    return _bias(probe, at, lambda head, query, key: table[bucket(key - query)][head])


def _shaw(probe: Any, at: Rows) -> Expected:
    table = probe.method.encoding.weight.tolist()
    return _bias(probe, at, lambda head, query, key: table[16 + max(-16, min(16, key - query))][head])


def _kerple(probe: Any, at: Rows) -> Expected:
    encoding = probe.method.encoding
    r1, r2 = (
        [math.log1p(math.exp(raw)) for raw in part.tolist()] for part in (encoding.raw_r1, encoding.raw_r2)
    )
    return _bias(probe, at, lambda head, query, key: -r1[head] * math.log(1 + r2[head] * abs(query - key)))


def _fire(probe: Any, at: Rows) -> Expected:
    encoding = probe.method.encoding
    c, limit = math.exp(float(encoding.log_c)), math.exp(float(encoding.log_threshold))
    inner, _, outer = encoding.mlp
    weight, inner_bias = [row[0] for row in inner.weight.tolist()], inner.bias.tolist()
    outer_weight, outer_bias = outer.weight.tolist(), outer.bias.tolist()

    def number(head: int, query: int, key: int) -> float:
        ratio = math.log(c * abs(query - key) + 1) / math.log(c * max(limit, query) + 1)
        hidden = [max(0.0, w * ratio + b) for w, b in zip(weight, inner_bias, strict=True)]
        return sum(w * h for w, h in zip(outer_weight[head], hidden, strict=True)) + outer_bias[head]

    return _bias(probe, at, number)


def _prefix(probe: Any, at: Rows) -> Expected:
    table = probe.method.encoding.weight.tolist()

    def number(head: int, query: int, key: int) -> float:
        place = min(at[key][0], at[query][0]) / at[query][0] * (len(table) - 1)
        left = min(int(place), len(table) - 2)
        return table[left][head] + (place - left) * (table[left + 1][head] - table[left][head])

    return _bias(probe, at, number)


def _two_halves(first: Callable[[int], float], second: Callable[[int], float], base: float) -> Formula:
    def formula(probe: Any, at: Rows) -> Expected:
        half = _dim(probe) // 2
        return _added(at, lambda i: sinusoid(first(i), half, base) + sinusoid(second(i), half, base))

    return formula


def _grid_additive(probe: Any, at: Rows) -> Expected:
    def code(i: int) -> list[float]:
        row, column = (sinusoid(place, _dim(probe), 100.0) for place in divmod(i, 16))
        return [a + b for a, b in zip(row, column, strict=True)]

    return _added(at, code)


def _grid_learned(probe: Any, at: Rows) -> Expected:
    table = probe.method.encoding.weight.tolist()
    return _added(at, lambda i: table[i // 16][i % 16])


def _grid_rope(probe: Any, at: Rows) -> Expected:
    half = _width(probe) // 2
    return Expected(
        rotary=[angles(i // 16, half, 100.0) + angles(i % 16, half, 100.0) for i in range(len(at))]
    )


def _phase(probe: Any, at: Rows) -> Expected:
    count = _dim(probe) // 4

    def waves(i: int, period: float) -> list[float]:
        phases = [2 * math.pi * k * i / period for k in range(1, count + 1)]
        return [wave(phase) for phase in phases for wave in (math.sin, math.cos)]

    return _added(at, lambda i: waves(i, 8.0) + waves(i, 64.0))


def _spectral(probe: Any, at: Rows) -> Expected:
    weight, bias = probe.method.encoding.weight.tolist(), probe.method.encoding.bias.tolist()

    def wave(i: int, k: int) -> float:
        return math.sqrt(2) * math.cos(math.pi * k * (i + 0.5) / len(at)) if k < len(at) else 0.0

    def code(i: int) -> list[float]:
        channels = zip(weight, bias, strict=True)
        return [sum(w * wave(i, k) for k, w in enumerate(row, 1)) + b for row, b in channels]

    return _added(at, code)


# By name in METHODS. Other methods have references in tests/: learned features, transformers' scaling rules.
FORMULAS: dict[str, Formula] = {
    "none": lambda probe, at: Expected(),
    "sinusoidal": _sinusoidal,
    "learned-frequencies": _learned_frequencies,
    "learned": lambda probe, at: Expected(added=probe.method.encoding.weight.tolist()[: len(at)]),
    "cape": _sinusoidal,
    "randomized-sinusoidal": lambda probe, at: Expected(
        added=[sinusoid(i, _dim(probe)) for i in _means(probe, len(at))]
    ),
    "rope": _rope,
    "rope-linear": lambda probe, at: _rope(probe, at, 4.0),
    "randomized-rope": lambda probe, at: Expected(
        rotary=[angles(i, _width(probe)) for i in _means(probe, len(at))]
    ),
    "xpos": _xpos,
    "lpi": lambda probe, at: Expected(rotary=[angles(place, _width(probe)) for (place,) in at]),
    "alibi": _alibi,
    "t5": _t5,
    "shaw": _shaw,
    "kerple": _kerple,
    "fire": _fire,
    "cable": lambda probe, at: _bias(
        probe, at, lambda head, query, key: -abs(at[query][head] - at[key][head])
    ),
    "cope": _cope,
    "scale-invariant": _scale_invariant,
    "fox": _fox,
    "nape": _nape,
    "prefix": _prefix,
    "hierarchical": _two_halves(lambda i: i // 8, lambda i: i % 8, 10_000.0),
    "grid-separable": _two_halves(lambda i: i // 16, lambda i: i % 16, 100.0),
    "grid-diagonal": _two_halves(
        lambda i: (i // 16 + i % 16) / math.sqrt(2), lambda i: (i % 16 - i // 16) / math.sqrt(2), 100.0
    ),
    "grid-additive": _grid_additive,
    "grid-learned": _grid_learned,
    "grid-rope": _grid_rope,
    "phase": _phase,
    "spectral": _spectral,
}
