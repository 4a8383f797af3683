"""The input layer, from semantic vectors e and added vectors s to the backbone's input x; the regularizers.

Every part is called `inputs(vectors, added)` with `vectors` (B, T, D), zero at padding, and `added` (B, T, D)
or None, and has the flag `causal`: x_i never depends on what follows token i. With the flag
`reads_coordinates` it is called `inputs(vectors, added, at)`, with the coordinates (B, T, C), not jittered.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, cast

import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn
from torch.nn import functional as F

from vnait.coordinates import SPAN, Gate
from vnait.coordinates.sources import ZeroLinear
from vnait.errors import one_of

X = Float[Tensor, "B T D"]


class Add(nn.Module):
    """x = e + s, or e if nothing is added.

    >>> Add()(torch.ones(1, 1, 2), torch.ones(1, 1, 2))
    tensor([[[2., 2.]]])
    """

    causal = True

    def forward(self, vectors: X, added: X | None) -> X:
        return vectors if added is None else vectors + added


class Fusion(nn.Module):
    """x = e + s + a with a = MLP_rel([e; s; e - s; cos(e, s)]), in the folded form: no 4D concatenation.

    W [e; s; e - s; rho 1] = (W_e + W_D) e + (W_s - W_D) s + rho (W_r 1): the same function as `LiteralFusion`
    with 2Dh + h first-layer weights instead of 4Dh. a starts at zero. Source: the Vnait papers, sections 3.6
    and 3.7; `docs/faithfulness.md`.

    >>> Fusion(dim=4, hidden=2)(torch.ones(1, 3, 4), torch.ones(1, 3, 4))[0, 0]
    tensor([2., 2., 2., 2.], grad_fn=<SelectBackward0>)
    """

    causal = True

    def __init__(self, *, dim: int, hidden: int = 16) -> None:
        super().__init__()
        self.semantic = nn.Linear(dim, hidden)
        self.spatial = nn.Linear(dim, hidden, bias=False)
        self.similarity = nn.Linear(1, hidden, bias=False)
        self.out = ZeroLinear(hidden, dim)

    def forward(self, vectors: X, added: X | None) -> X:
        spatial = _needed(added)
        return vectors + spatial + self.relate(vectors, spatial)

    def relate(self, vectors: X, spatial: X) -> X:
        """The association vector a (B, T, D)."""
        rho = cosine(vectors, spatial)[..., None]
        hidden = self.semantic(vectors) + self.spatial(spatial) + self.similarity(rho.to(vectors.dtype))
        return self.out(F.gelu(hidden))

    @classmethod
    def from_literal(cls, literal: LiteralFusion) -> Fusion:
        """The same function, folded."""
        of_e, of_s, of_difference, of_rho = literal.inner.weight.detach().chunk(4, dim=1)
        dim, hidden = of_e.shape[1], of_e.shape[0]
        fusion = cls(dim=dim, hidden=hidden).to(of_e)
        _copy(fusion.semantic.weight, of_e + of_difference)
        _copy(fusion.semantic.bias, literal.inner.bias)
        _copy(fusion.spatial.weight, of_s - of_difference)
        _copy(fusion.similarity.weight, of_rho.sum(1, keepdim=True))
        fusion.out.load_state_dict(literal.out.state_dict())
        return fusion

    def to_literal(self) -> LiteralFusion:
        """The same function in the papers' weights: of all W that fold to it, with W_D = 0 and equal W_r."""
        hidden, dim = self.semantic.weight.shape
        literal = LiteralFusion(dim=dim, hidden=hidden).to(self.semantic.weight)
        of_rho = (self.similarity.weight / dim).expand(hidden, dim)
        weights = [self.semantic.weight, self.spatial.weight, torch.zeros_like(self.semantic.weight), of_rho]
        _copy(literal.inner.weight, torch.cat(weights, 1))
        _copy(literal.inner.bias, self.semantic.bias)
        literal.out.load_state_dict(self.out.state_dict())
        return literal


class LiteralFusion(nn.Module):
    """x = e + s + MLP_rel([e; s; e - s; rho 1_D]) with the 4D concatenation, as the papers write it.

    >>> LiteralFusion(dim=4, hidden=8)(torch.ones(1, 3, 4), torch.ones(1, 3, 4)).shape
    torch.Size([1, 3, 4])
    """

    causal = True

    def __init__(self, *, dim: int, hidden: int) -> None:
        super().__init__()
        self.inner = nn.Linear(4 * dim, hidden)
        self.out = nn.Linear(hidden, dim)

    def forward(self, vectors: X, added: X | None) -> X:
        spatial = _needed(added)
        rho = cosine(vectors, spatial)[..., None].to(vectors.dtype).expand_as(vectors)
        relation = torch.cat([vectors, spatial, vectors - spatial, rho], -1)
        return vectors + spatial + self.out(F.gelu(self.inner(relation)))


class Neighbours(nn.Module):
    """Another input layer plus views of the neighbourhood: x = inputs(e, s) + sum_v v(e).

    views    `Local`, `Nearest` or any other (B, T, D) -> (B, T, D) with the flag `causal`

    >>> Neighbours(Add(), [Local(dim=4), Nearest(dim=4)])(torch.ones(1, 5, 4), None).shape
    torch.Size([1, 5, 4])
    """

    def __init__(self, inputs: nn.Module, views: Sequence[nn.Module]) -> None:
        super().__init__()
        self.inputs, self.views = inputs, nn.ModuleList(views)

    @property
    def causal(self) -> bool:
        """If all parts are."""
        return all(bool(part.causal) for part in (self.inputs, *self.views))

    def forward(self, vectors: X, added: X | None) -> X:
        x: Tensor = self.inputs(vectors, added)
        return x + sum(view(vectors) for view in self.views)


class Condensed(nn.Module):
    """Neighbours by what counts: x = inputs(e, s) + sum_v v(c)(a_i), c_m = sum_j g_j tri(a_j - m) e_j.

    tri(r) = max(0, 1 - |r|).

    a and g are axes 1 and 3 of `Elastic`: places in what counts, and weights. c is the text without what
    counts nothing, so the views see the next token that counts, however much filler stands between. Between
    two whole places a view is interpolated, so gradients reach learned weights. Where all tokens count one,
    the same as `Neighbours`. Source: this project.

    >>> at = torch.tensor([[[0.0, 0.0, 1.0, 1.0], [0.0, 0.5, 0.5, 0.0], [0.0, 1.0, 0.0, 1.0]]])
    >>> Condensed(Add(), [nn.Identity()])(torch.tensor([[[1.0], [9.0], [2.0]]]), None, at)[..., 0]
    tensor([[ 2.0000, 10.5000,  4.0000]])
    """

    causal = False  # a token may share its place with the next one
    reads_coordinates = True

    def __init__(self, inputs: nn.Module, views: Sequence[nn.Module]) -> None:
        super().__init__()
        self.inputs, self.views = inputs, nn.ModuleList(views)

    def forward(self, vectors: X, added: X | None, at: Float[Tensor, "B T C"]) -> X:
        if at.shape[-1] < 4:
            raise ValueError(
                f"Condensed reads axes 1 and 3 of Elastic, and the coordinates have {at.shape[-1]}."
            )
        batch, length, _ = vectors.shape
        place, weight = at[..., 1:2].nan_to_num().clamp(0, length - 1), at[..., 3:4]  # a row in any case
        if not torch.is_grad_enabled() and not torch.compiler.is_compiling() and bool((weight == 1).all()):
            # Where all tokens count the text is condensed as it is; weights need their gradient in training.
            return cast(Tensor, self.inputs(vectors, added) + sum(view(vectors) for view in self.views))
        low = place.floor()
        share = place - low
        # Rows of all texts in one table, with a row of zeros after each: whole rows are copied faster. Not in
        # half precision, which loses small weights in a sum.
        first = torch.arange(batch, device=at.device)[:, None] * (length + 1)
        row = (low[..., 0].long() + first).flatten()
        words = vectors.to(torch.promote_types(vectors.dtype, torch.float32))
        lower, upper = (
            (part.to(words.dtype) * words).flatten(0, 1) for part in (weight * (1 - share), weight * share)
        )
        room = words.new_zeros(batch * (length + 1), words.shape[-1])
        condensed = room.index_add(0, row, lower).index_add_(0, row + 1, upper).to(vectors.dtype)
        condensed = condensed.unflatten(0, (batch, length + 1))[:, :-1]
        found = F.pad(sum(view(condensed) for view in self.views), (0, 0, 0, 1)).flatten(0, 1)
        seen = torch.lerp(
            found.index_select(0, row), found.index_select(0, row + 1), share.to(found.dtype).flatten(0, 1)
        )
        return self.inputs(vectors, added) + seen.unflatten(0, (batch, length))


class _View(nn.Module):
    """A view of the neighbourhood, left out of a share `dropout` of the training texts, in [0, 1).

    In short texts a view has much of what s should learn, such as which of two words comes first,
    and in long ones it does not (`studies/findings/`).
    """

    def __init__(self, *, look: str, dropout: float) -> None:
        super().__init__()
        one_of("look", look, ("both", "back"))
        if not 0 <= dropout < 1:
            raise ValueError(f"dropout={dropout}; take a share of the texts in [0, 1).")
        self.look, self.dropout = look, dropout

    @property
    def causal(self) -> bool:
        """If it looks back only."""
        return self.look == "back"

    def drop_texts(self, view: X) -> X:
        """The view, with zeros for the training texts that are left out."""
        if not (self.training and self.dropout):
            return view
        kept = torch.rand(len(view), 1, 1, device=view.device) >= self.dropout
        return view * kept.to(view.dtype)


class Local(_View):
    """l_i = sum_j c_j * e_{i+j}: a depthwise window over neighbours' vectors.

    look    "both"  j = -w ... w, an odd width of 2w + 1
            "back"  j = -(width - 1) ... 0; for decoders
    shape   of a channel's taps at the start, g normal with standard deviation `start`:
            "one"     c_j = g at one j, else 0; each channel another j, so that far neighbours are learned as
                      soon as near ones
            "fading"  c_j = g exp(-(|j| - 1) / tau) on one side, 0 on the other and at the token, tau
                      log-uniform in [1, w]: a mixture of neighbours predicts the next word best

    Each of the `width` taps c_j is a vector (D,). Source: this project; `studies/findings/`.

    >>> Local(dim=4, width=3)(torch.ones(1, 5, 4)).shape
    torch.Size([1, 5, 4])
    """

    def __init__(
        self,
        *,
        dim: int,
        width: int = 9,
        start: float = 0.3,
        look: Literal["both", "back"] = "both",
        shape: Literal["one", "fading"] = "one",
        dropout: float = 0.3,
    ) -> None:
        super().__init__(look=look, dropout=dropout)
        one_of("shape", shape, ("one", "fading"))
        if width < 1 or (look == "both" and width % 2 == 0):
            raise ValueError(f"width={width}; a window around a token has an odd number of taps, 1 or more.")
        self.start, self.shape = start, shape
        self.taps = nn.Parameter(torch.empty(dim, 1, width))
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """By `shape`. "one" begins with the nearest neighbours; half of "fading" channels look right."""
        dim, _, width = self.taps.shape
        own = width - 1 if self.look == "back" else width // 2
        away = torch.arange(width) - own
        if self.shape == "one":
            rank = away.abs().argsort(stable=True).argsort()  # 0 is the token itself
            share = (rank == 1 + torch.arange(dim)[:, None] % max(width - 1, 1)).float()
        else:
            right = torch.arange(dim) % 2 == 0 if self.look == "both" else torch.zeros(dim, dtype=torch.bool)
            away = torch.where(right[:, None], away, -away)
            tau = max(own, 1) ** torch.rand(dim, 1)
            share = torch.exp((1 - away) / tau).masked_fill(away <= 0, 0)
        with torch.no_grad():
            self.taps.copy_((nn.init.normal_(torch.empty(dim, 1), std=self.start) * share)[:, None])

    def forward(self, vectors: X) -> X:
        dim, _, width = self.taps.shape
        room = (width - 1, 0) if self.look == "back" else (width // 2, width // 2)
        window = F.conv1d(F.pad(vectors.transpose(1, 2), room), self.taps, groups=dim)
        return self.drop_texts(window.transpose(1, 2))

    def extra_repr(self) -> str:
        return (
            f"width={self.taps.shape[-1]}, look={self.look!r}, shape={self.shape!r}, dropout={self.dropout}"
        )


class Nearest(_View):
    """The nearest neighbour that counts, to one side: n_i = g * sum_{j=1}^{reach} a_j e_{i-j}, or e_{i+j}.

    a_j = softmax_j(4 k(e_{i-j}) - (j - 1) / tau), for each of `heads` groups of channels: k, a learned linear
    map, is how much a word counts; tau is learned, from 1 to 4. If a few words count far more than the
    others, a selects the nearest of them at full strength, at any distance up to `reach`; a window's taps
    fade. Attention without queries, as AFT-local (arXiv 2105.14103), with ALiBi's distances. Zero vectors
    stand past either end, as at padding.

    look    "both"  the first half of the heads looks back, the other one ahead
            "back"  all heads look back; for decoders

    >>> Nearest(dim=4, heads=2)(torch.ones(1, 5, 4)).shape
    torch.Size([1, 5, 4])
    """

    KEY_SCALE = 4.0  # so that the keys are learned in as few steps as the rest

    def __init__(
        self,
        *,
        dim: int,
        heads: int = 8,
        reach: int = 16,
        start: float = 0.3,
        look: Literal["both", "back"] = "both",
        dropout: float = 0.3,
    ) -> None:
        super().__init__(look=look, dropout=dropout)
        if reach < 1 or heads < 1 or (look == "both" and heads % 2):
            raise ValueError(
                f"heads={heads}, reach={reach}; take an even number of heads, and a reach of 1 or more."
            )
        self.heads, self.reach, self.start = heads, reach, start
        self.key = nn.Linear(dim, heads, bias=False)  # at padding, which is zero, k is zero
        self.fade = nn.Parameter(torch.empty(heads))
        self.gain = nn.Parameter(torch.empty(dim))
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """g normal with standard deviation `start`; log tau evenly from log 1 to log 4, on both sides."""
        sides = 1 if self.causal else 2
        tau = 4 ** torch.linspace(0, 1, self.heads // sides)
        nn.init.normal_(self.gain, std=self.start)
        with torch.no_grad():
            self.fade.copy_((1 / tau).expm1().log().repeat(sides))

    def forward(self, vectors: X) -> X:
        dim, heads = vectors.shape[-1], self.heads
        key, fade = self.KEY_SCALE * self.key(vectors), F.softplus(self.fade)
        value = F.pad(vectors, (0, -dim % heads)).unflatten(-1, (heads, -1))
        if self.causal:
            found = self._behind(key, value, fade)
        else:  # half of the heads look ahead: back in the reversed text
            back = heads // 2
            key = torch.cat([key[..., :back], key[..., back:].flip(1)], -1)
            value = torch.cat([value[..., :back, :], value[..., back:, :].flip(1)], -2)
            found = self._behind(key, value, fade)
            found = torch.cat([found[..., :back, :], found[..., back:, :].flip(1)], -2)
        return self.drop_texts(self.gain * found.flatten(-2)[..., :dim])

    def _behind(
        self, key: Float[Tensor, "B T H"], value: Float[Tensor, "B T H C"], fade: Float[Tensor, " H"]
    ) -> Float[Tensor, "B T H C"]:
        """In blocks of `reach` tokens, each of which sees itself and the block before."""
        length, reach = key.shape[1], self.reach
        places = torch.arange(2 * reach, device=key.device)
        away = places[:reach, None] + reach - places
        scores = _blocks(key, reach).transpose(2, 3)[..., None, :] - fade[:, None, None] * (away - 1)
        shares = scores.masked_fill((away < 1) | (away > reach), -torch.inf).softmax(-1)
        found = shares.to(value.dtype) @ _blocks(value, reach).transpose(2, 3)
        return found.transpose(2, 3).flatten(1, 2)[:, :length]

    def extra_repr(self) -> str:
        return f"reach={self.reach}, look={self.look!r}, dropout={self.dropout}"


def _blocks(tokens: Float[Tensor, "B T *any"], size: int) -> Float[Tensor, "B N M *any"]:
    """Every block of `size` tokens with the one before it, zeros before the first and after the last."""
    # Tracing makes sizes of 1 constants, so that a model would take texts of one block only: there it has a
    # block of zeros more.
    count = (tokens.shape[1] + size - 1) // size + torch.compiler.is_compiling()
    room = (0, 0) * (tokens.ndim - 2) + (size, count * size - tokens.shape[1])
    blocks = F.pad(tokens, room).unflatten(1, (count + 1, size))
    return torch.cat([blocks[:, :-1], blocks[:, 1:]], 2)


def cosine(one: X, other: X) -> Float[Tensor, "B T"]:
    """rho = <e, s> / (|e| |s|) in [-1, 1]; 0, with a finite gradient, if either norm is 0.

    >>> cosine(torch.tensor([[[3.0, 0.0], [0.0, 0.0]]]), torch.tensor([[[4.0, 0.0], [1.0, 0.0]]]))
    tensor([[1., 0.]])
    """
    # Squares overflow float16 past 255 and are inexact in bfloat16; a square root has no gradient at 0.
    one, other = (part if part.dtype == torch.float64 else part.float() for part in (one, other))
    square = one.square().sum(-1), other.square().sum(-1)
    some = (square[0] > 0) & (square[1] > 0)
    norms = torch.where(some, square[0], 1).sqrt() * torch.where(some, square[1], 1).sqrt()
    return torch.where(some, (one * other).sum(-1) / norms, 0)


def smoothness(at: Float[Tensor, "B T C"], mask: Bool[Tensor, "B T"]) -> Float[Tensor, ""]:
    """sum_{i=1}^{n-1} Huber((S_{i+1} - S_i) - 100/n), delta = 1, averaged over the sentences.

    >>> smoothness(torch.tensor([[[50.0], [100.0]]]), torch.ones(1, 2, dtype=torch.bool))
    tensor(0.)
    """
    line = at[..., 0]
    between = mask[:, 1:] & mask[:, :-1]
    ideal = SPAN / mask.sum(-1, keepdim=True)
    off = (line.diff(dim=-1) - ideal).masked_fill(~between, 0)
    return F.huber_loss(off, torch.zeros_like(off), reduction="sum", delta=1.0) / len(mask)


def muting(at: Float[Tensor, "B T C"], mask: Bool[Tensor, "B T"]) -> Float[Tensor, ""]:
    """The prior that every token counts: max(0, 3/2 - l_i), l on axis 4 of `Elastic`, averaged over tokens.

    >>> muting(torch.tensor([[[0.0, 0.0, 0.0, 0.5, 0.5]]]), torch.ones(1, 1, dtype=torch.bool))
    tensor(1.)
    """
    short = (Gate.START - at[..., 4]).relu().masked_fill(~mask, 0)
    return short.sum() / mask.sum()


def boundary(at: Float[Tensor, "B T C"], mask: Bool[Tensor, "B T"]) -> Float[Tensor, ""]:
    """max(0, -S_1)^2 + max(0, S_n - 100)^2, averaged over the sentences.

    >>> boundary(torch.tensor([[[-1.0], [102.0]]]), torch.ones(1, 2, dtype=torch.bool))
    tensor(5.)
    """
    line = at[..., 0]
    # Padding repeats S_1 or S_n, and would get a share of their gradient.
    first = line.masked_fill(~mask, torch.inf).amin(-1)
    last = line.masked_fill(~mask, -torch.inf).amax(-1)
    return ((-first).clamp(min=0).square() + (last - SPAN).clamp(min=0).square()).mean()


def _needed(added: X | None) -> X:
    if added is None:
        raise ValueError(
            "a fusion needs an s, but the encoding added none; take an encoding that adds, or inputs=Add()."
        )
    return added


def _copy(target: Tensor, source: Tensor) -> None:
    with torch.no_grad():
        target.copy_(source)
