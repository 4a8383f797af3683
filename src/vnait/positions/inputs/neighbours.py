"""Views of the neighbourhood, in the text as written, or among the tokens that count."""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from operator import add
from typing import Literal, cast

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn
from torch.nn import functional as F

from vnait.positions.coordinates.shared import in_one_piece, max_lookback
from vnait.positions.inputs.fusion import X
from vnait.shared.errors import one_of
from vnait.shared.randomness import generator
from vnait.shared.values import all_true, full, transformed


class Neighbours(nn.Module):
    """Another input layer plus views of the neighbourhood: x = inputs(e, s) + sum_v v(e).

    views    `Local`, `Nearest` or any other (B, T, D) -> (B, T, D) with the flag `causal`

    >>> from vnait.positions.inputs import Add
    >>> Neighbours(Add(), [Local(dim=4), Nearest(dim=4)])(torch.ones(1, 5, 4), None).shape
    torch.Size([1, 5, 4])
    """

    def __init__(self, inputs: nn.Module, views: Sequence[nn.Module]) -> None:
        super().__init__()
        self.inputs, self.views = inputs, nn.ModuleList(views)

    @property
    def causal(self) -> bool:
        return all(bool(part.causal) for part in (self.inputs, *self.views))

    @property
    def lookback(self) -> int | None:
        """The largest of the parts; None if one has none."""
        return max_lookback((self.inputs, *self.views))

    def forward(self, vectors: X, added: X | None) -> X:
        x: Tensor = self.inputs(vectors, added)
        return x + _seen(self.views, vectors)


class Condensed(nn.Module):
    """Neighbours by what counts: x = inputs(e, s) + sum_v v(c)(a_i), c_m = sum_j g_j tri(a_j - m) e_j.

    tri(r) = max(0, 1 - |r|).

    a and g are axes 1 and 3 of `Elastic`: places in what counts, here within [0, n - 1], and weights. c is
    the text without tokens of weight 0, so the views see the next token that counts, however much filler
    stands between. Between two whole places a view is interpolated, so gradients reach learned weights.
    Where all tokens count one, the same as `Neighbours`. Source: this project.

    >>> from vnait.positions.inputs import Add
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
        if not (torch.is_grad_enabled() or transformed()) and all_true(_whole(weight[..., 0])):
            # Where all tokens count the text is condensed as it is; weights need their gradient in training.
            return cast(Tensor, self.inputs(vectors, added) + _seen(self.views, vectors))
        low = place.floor()
        share = place - low
        # Rows of all texts in one table: whole rows are copied faster. The last place is whole, so that its
        # share of the next row, which would be another text's, is 0: it takes its own again.
        first = torch.arange(batch, device=at.device)[:, None] * length
        here = low[..., 0].long()
        row, after = ((index + first).flatten() for index in (here, (here + 1).clamp(max=length - 1)))
        words = full(vectors)  # half precision loses small weights in a sum
        lower, upper = (
            (part.to(words.dtype) * words).flatten(0, 1) for part in (weight * (1 - share), weight * share)
        )
        room = lower.new_zeros(lower.shape)
        condensed = room.index_add_(0, row, lower).index_add_(0, after, upper).to(vectors.dtype)
        table = _seen(self.views, condensed.unflatten(0, (batch, length))).flatten(0, 1)
        seen = torch.lerp(
            table.index_select(0, row), table.index_select(0, after), share.to(table.dtype).flatten(0, 1)
        )
        return self.inputs(vectors, added) + seen.unflatten(0, (batch, length))


def _whole(weight: Float[Tensor, "B T"]) -> Tensor:
    """Of each text, whether all tokens count one, with padding, which counts nothing, at its sides alone."""
    counts = weight == 1
    return (counts | (weight == 0)).all(-1) & in_one_piece(counts)


def _seen(views: nn.ModuleList, vectors: X) -> X:
    """The sum of all views; 0 without one, and of no token."""
    if not views or vectors.shape[1] == 0:
        return torch.zeros_like(vectors)
    return reduce(add, (view(vectors) for view in views))  # not sum, which adds the first one to 0


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
        return self.look == "back"

    def drop_texts(self, view: X, gain: Float[Tensor, " D"] | None = None) -> X:
        """gain * view, gain = 1 by default, with zeros for the training texts that are left out."""
        factor = gain
        if self.training and self.dropout:
            source = generator(view.device)
            drawn = torch.rand(len(view), 1, 1, device=view.device, generator=source)
            keep = (drawn >= self.dropout).to(view.dtype)
            factor = keep if gain is None else gain * keep
        return view if factor is None else factor * view


class Local(_View):
    """l_i = sum_j c_j * e_{i+j}: a depthwise window over neighbours' vectors.

    look    "both"  j = -w ... w, an odd width of 2w + 1
            "back"  j = -(width - 1) ... 0; for decoders
    shape   of a channel's taps at the start, g normal with standard deviation `start`:
            "one"     c_j = g at one j, else 0; each channel another j, so that far neighbours are learned as
                      soon as near ones
            "fading"  c_j = g exp(-(|j| - 1) / tau) on one side, 0 on the other and at the token, tau
                      log-uniform in [1, w]: a mixture of neighbours predicts the next word best
    speed   c = speed * `taps`: Adam's steps do not depend on the gradient's scale, so c is learned `speed`
            times as fast

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
        speed: float = 1.0,
        dropout: float = 0.3,
    ) -> None:
        super().__init__(look=look, dropout=dropout)
        one_of("shape", shape, ("one", "fading"))
        if width < 1 or (look == "both" and width % 2 == 0):
            raise ValueError(f"width={width}; a window around a token has an odd number of taps, 1 or more.")
        if speed <= 0:
            raise ValueError(f"speed={speed}; take a number above 0.")
        self.start, self.shape, self.speed = start, shape, speed
        self.taps = nn.Parameter(torch.empty(dim, 1, width))
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """By `shape`. "one" begins with the nearest neighbours; half of "fading" channels look right."""
        dim, _, width = self.taps.shape
        centre = width - 1 if self.look == "back" else width // 2
        away = torch.arange(width) - centre
        if self.shape == "one":
            rank = away.abs().argsort(stable=True).argsort()  # 0 is the token itself
            share = (rank == 1 + torch.arange(dim)[:, None] % max(width - 1, 1)).float()
        else:
            right = torch.arange(dim) % 2 == 0 if self.look == "both" else torch.zeros(dim, dtype=torch.bool)
            away = torch.where(right[:, None], away, -away)
            tau = max(centre, 1) ** torch.rand(dim, 1)
            share = torch.exp((1 - away) / tau).masked_fill(away <= 0, 0)
        taps = nn.init.normal_(torch.empty(dim, 1), std=self.start) * share
        with torch.no_grad():
            self.taps.copy_(taps[:, None] / self.speed)

    @property
    def lookback(self) -> int:
        """How many tokens before it a token's view reads."""
        return (self.taps.shape[-1] - 1) // (1 if self.causal else 2)

    def forward(self, vectors: X) -> X:
        # As an image of one row whose channels are last: so no kernel has to copy its vectors or the result.
        row = vectors.transpose(1, 2)[:, :, None]
        taps = (self.speed * self.taps)[:, :, None]
        window = F.conv2d(row, taps, padding=(0, self.lookback), groups=len(taps))
        return self.drop_texts(window[:, :, 0, : vectors.shape[1]].transpose(1, 2))

    def extra_repr(self) -> str:
        return (
            f"width={self.taps.shape[-1]}, look={self.look!r}, shape={self.shape!r}, speed={self.speed}, "
            f"dropout={self.dropout}"
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

    @property
    def lookback(self) -> int:
        """How many tokens before it a token's view reads."""
        return self.reach

    def forward(self, vectors: X) -> X:
        length, dim, reach = *vectors.shape[1:], self.reach
        # A short text is one block. Not in tracing, which makes sizes of 1 constants.
        short = not torch.compiler.is_compiling() and length < 2 * reach
        size = length if short else reach
        key = self.KEY_SCALE * self.key(vectors)
        rest = -dim % self.heads
        value = (F.pad(vectors, (0, rest)) if rest else vectors).unflatten(-1, (self.heads, -1))
        keys, values = (self._from_windows(part, size) for part in (key, value))
        fades = F.softplus(self.fade)[:, None] * self._steps(vectors.device)
        shares = (_windows(torch.cat(keys), reach) - fades[:, None, None]).softmax(-1).to(value.dtype)
        # The windows of a block lie in size + reach tokens: their shares are a band in a matrix. Rows longer
        # by one than those they are cut into move on by one each.
        band = F.pad(shares.unflatten(2, (-1, size)), (0, size + 1)).flatten(-2)
        band = band[..., : size * (size + reach)].unflatten(-1, (size, -1))
        sums = [
            (weights @ (tokens[:, :, None] if short else _doubled(tokens, size))).flatten(2, 3)[:, :, :length]
            for weights, tokens in zip(band.split(list(map(len, values))), values, strict=True)
        ]
        seen = torch.cat([side.permute(1, 2, 0, 3) for side in sums], 2).flatten(-2)[..., :dim]
        return self.drop_texts(seen, self.gain)

    @property
    def _back(self) -> int:
        """How many heads look back."""
        return self.heads if self.causal else self.heads // 2

    def _from_windows(
        self, tokens: Float[Tensor, "B T H *any"], size: int
    ) -> list[Float[Tensor, "_ B M *any"]]:
        """The tokens of the heads that look back, and of those that look ahead, moved so that the window of
        token i begins at i; zeros past either end, up to whole blocks.
        """
        length = tokens.shape[1]
        # A traced model would take texts of one block only, so that it has a block of zeros more.
        rest = ((length + size - 1) // size + torch.compiler.is_compiling()) * size - length
        none, heads = (0, 0) * (tokens.ndim - 3), tokens.movedim(2, 0)
        sides = [F.pad(heads[: self._back], (*none, self.reach, rest))]
        if self._back < self.heads:
            sides.append(F.pad(heads[self._back :], (*none, -1, rest + self.reach + 1)))
        return sides

    def _steps(self, device: torch.device) -> Int[Tensor, "H R"]:
        """j - 1, by the place in a window."""
        step = torch.arange(self.reach, device=device)
        ahead = torch.arange(self.heads, device=device) >= self._back
        return torch.where(ahead[:, None], step, step.flip(0))

    def extra_repr(self) -> str:
        return f"reach={self.reach}, look={self.look!r}, dropout={self.dropout}"


def _doubled(tokens: Float[Tensor, "H B M C"], size: int) -> Float[Tensor, "H B N L C"]:
    """Every block of `size` tokens with the one after it."""
    blocks = tokens.unflatten(2, (-1, size))
    return torch.cat([blocks[:, :, :-1], blocks[:, :, 1:]], 3)


def _windows(tokens: Float[Tensor, "H B M"], size: int) -> Float[Tensor, "H B T W"]:
    """The `size` tokens from each one on, but the last `size` ones."""
    if not transformed():
        return tokens.unfold(2, size, 1)[:, :, :-1]
    count = tokens.shape[2] - size  # the gradient of `unfold` runs model by model in torch.func.vmap
    return torch.stack([tokens[..., step : step + count] for step in range(size)], -1)
