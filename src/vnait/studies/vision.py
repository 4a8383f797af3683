"""Images of other sizes in a vision Transformer: patches, padding with a mask, and positions that stretch or shift.

A convolution whose kernel is as wide as its stride cuts patches and maps them, pixels that fill no patch are dropped. A mask over
padding (of the keys and of the pooling) hides it exactly, if the real patches keep their places and none of them is partly padding.
A learned table of (row, column) is read between its entries on a finer grid. Distances need no table of places: a picture may stand
anywhere on a canvas. But a picture that is resized has twice the distances and other patches, and neither says that it was resized.
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING

import torch
from sklearn.datasets import load_digits
from torch import Generator, Tensor, nn
from torch.nn import functional as F

from vnait.backbone import Encoder
from vnait.coordinates import Grid
from vnait.encodings import Axial, Axis, Concatenated, GridTable, Relative, Silent, Sinusoid, Sum
from vnait.method import Method
from vnait.studies.training import descend
from vnait.study import Budget, Control, Findings, Metrics, Study, Verdict, claim

if TYPE_CHECKING:
    from matplotlib.figure import Figure

PATCH, SIDE, DIM, HEADS = 2, 4, 48, 4  # 8 x 8 pixels are 4 x 4 patches
TRAIN, BATCH = 1_300, 32
MODELS = {
    "learned": "a learned table of 4 x 4 vectors",
    "sinusoid": "[PE(row), PE(column)], base 100",
    "relative": "a learned bias of the row's distance and of the column's",
    "axial": "queries and keys turned by row and column",
    "none": "no positions",
}
PATCHES = {"patches": "a convolution of 2 x 4 pixels", "patches, turned": "the same, its kernel read column by column"}


def encoding(arm: str) -> nn.Module:
    if arm == "learned":
        return GridTable(dim=DIM, shape=(SIDE, SIDE), start=0.5)
    if arm == "sinusoid":
        return Concatenated(*(Axis(Sinusoid(dim=DIM // 2, base=100), axis) for axis in (0, 1)))
    if arm == "relative":
        return Sum(*(Axis(Relative(num_heads=HEADS, max_distance=SIDE - 1, start=1.0), axis) for axis in (0, 1)))
    return Axial(width=DIM // HEADS, axes=2) if arm == "axial" else Silent()


class Placed(nn.Module):
    """Known places (T, 2), the same for every image."""

    causal, per_sentence = False, False

    def __init__(self, places: Tensor) -> None:
        super().__init__()
        self.places = places

    def forward(self, vectors: Tensor | None, mask: Tensor) -> Tensor:
        return self.places.expand(len(mask), -1, -1)


class Viewer(nn.Module):
    """Images (B, h, w) -> logits (B, 10): patches, positions, two blocks, the mean over the patches that are kept."""

    def __init__(self, arm: str) -> None:
        super().__init__()
        self.patches = nn.Conv2d(1, DIM, PATCH, stride=PATCH)
        self.method = Method(coordinates=Grid(shape=(-1, SIDE)), encoding=encoding(arm))
        self.unbounded = arm != "learned"  # there are places past those that were trained
        self.encoder = Encoder(dim=DIM, num_heads=HEADS, intermediate=2 * DIM, num_layers=2, dropout=0.0)
        self.read = nn.Linear(DIM, 10)

    def forward(self, images: Tensor, places: Tensor | None = None, keep: Tensor | None = None) -> Tensor:
        """`places` (T, 2) of the patches, `keep` (B, T): True = real; None for 4 x 4 of them, and for all."""
        vectors = self.patches(images[:, None]).flatten(2).mT
        keep = torch.ones(vectors.shape[:2], dtype=torch.bool) if keep is None else keep
        method = self.method
        if places is not None:
            method = Method(coordinates=Placed(places), encoding=method.encoding)
        told = method(vectors, keep)
        states = self.encoder(told.x, told.injection, keep) * keep[..., None]
        return self.read(states.sum(1) / keep.sum(1, keepdim=True))


def grid(images: Tensor) -> Tensor:
    """The cells (T, 2) of the patches of images (B, h, w)."""
    return torch.cartesian_prod(*(torch.arange(size // PATCH, dtype=images.dtype) for size in images.shape[1:]))


@lru_cache(maxsize=1)
def digits() -> tuple[Tensor, Tensor]:
    """1,797 images of 8 x 8 pixels in [0, 1], and what they show."""
    found = load_digits()
    return torch.tensor(found.images, dtype=torch.float32) / 16, torch.tensor(found.target)


def train(arm: str, seed: int, budget: Budget) -> tuple[Viewer, Tensor, Tensor]:
    """The model, and the images and labels that it has not seen."""
    images, labels = digits()
    random = Generator().manual_seed(seed)
    order = torch.randperm(len(images), generator=random)
    torch.manual_seed(seed)
    model = Viewer(arm)

    def loss(step: int) -> Tensor:
        batch = order[torch.randint(TRAIN, (BATCH,), generator=random)]
        return F.cross_entropy(model(images[batch]), labels[batch])

    descend(model.parameters(), loss, steps=budget.steps, learning_rate=3e-3, weight_decay=0.01)
    return model.requires_grad_(False), images[order[TRAIN:]], labels[order[TRAIN:]]


def run(arm: str, seed: int, budget: Budget) -> Metrics:
    if arm in PATCHES:
        return cut(seed, turned=arm != "patches")
    model, images, labels = train(arm, seed, budget)

    def accuracy(images: Tensor, places: Tensor | None = None, keep: Tensor | None = None) -> float:
        return float((model(images, places, keep).argmax(1) == labels).double().mean())

    found = {"accuracy": accuracy(images)}
    for size in (12, 16):
        larger = F.interpolate(images[:, None], size=(size, size), mode="bilinear")[:, 0]
        for name, places in placed(grid(larger), Generator().manual_seed(seed)).items():
            if (name != "counted" or model.unbounded) and (size == 12 or name in ("scaled", "counted")):
                found[f"{size} {name}"] = accuracy(larger, places)
    canvas, keep = framed(images, corner=(8, 8), fill=0)
    found["moved"] = accuracy(canvas, placed(grid(canvas))["counted" if model.unbounded else "scaled"], keep)
    return {**found, **changes(model.double(), images[:8].double())}


def placed(cells: Tensor, random: Generator | None = None) -> dict[str, Tensor]:
    """Places of a finer grid's cells: spread over the 4 x 4 that were trained, as they are, cut off, or spread and mixed up."""
    scaled = cells * (SIDE - 1) / cells.max()
    return {
        "scaled": scaled,
        "counted": cells,
        "clamped": cells.clamp(max=SIDE - 1),
        "shuffled": scaled[torch.randperm(len(cells), generator=random)],
    }


def framed(images: Tensor, *, corner: tuple[int, int], fill: float) -> tuple[Tensor, Tensor]:
    """Images at a corner, in pixels, of a canvas of 16 x 16; and which of its patches are theirs."""
    canvas = images.new_full((len(images), 16, 16), fill)
    mine = torch.zeros(len(images), 16, 16, dtype=torch.bool)
    window = slice(None), slice(corner[0], corner[0] + 8), slice(corner[1], corner[1] + 8)
    canvas[window], mine[window] = images, True
    return canvas, mine[:, ::PATCH, ::PATCH].flatten(1)


def changes(model: Viewer, images: Tensor) -> Metrics:
    """How far logits move when an image is padded to 16 x 16, in float64."""
    plain = model(images, grid(images))
    black, keep = framed(images, corner=(0, 0), fill=0)
    white, _ = framed(images, corner=(0, 0), fill=7)
    places = placed(grid(black))
    away, there = framed(images, corner=(8, 8), fill=0)
    ragged = [model(F.pad(images[:, :7, :7], (0, 1, 0, 1), value=fill), grid(images)) for fill in (0.0, 7.0)]
    moved = {
        "masked, 0": model(black, places["clamped"], keep) - plain,  # real patches stand where they stood
        "masked, 7": model(white, places["clamped"], keep) - plain,
        "shifted": model(away, places["counted" if model.unbounded else "scaled"], there) - plain,
        "no mask": model(black, places["clamped"]) - plain,
        "places spread": model(black, places["scaled"], keep) - plain,
        "ragged": ragged[0] - ragged[1],
    }
    return {name: float(change.abs().max()) for name, change in moved.items()}


def cut(seed: int, *, turned: bool) -> Metrics:
    """A convolution whose kernel is its stride, against patches cut by hand and mapped; and the pixels that it does not read."""
    torch.manual_seed(seed)
    layer = nn.Conv2d(3, DIM, (2, 4), stride=(2, 4)).double().requires_grad_(False)
    images = torch.rand(2, 3, 12, 20, dtype=torch.float64)
    patches = images.unfold(2, 2, 2).unfold(3, 4, 4).permute(0, 2, 3, 1, 4, 5)  # (B, rows, columns, 3, 2, 4)
    patches = (patches.mT if turned else patches).flatten(3)
    by_hand = F.linear(patches, layer.weight.flatten(1), layer.bias)
    odd = torch.rand(1, 3, 13, 21, dtype=torch.float64, requires_grad=True)
    layer(odd).square().sum().backward()
    assert odd.grad is not None
    return {
        "error": float((layer(images).movedim(1, -1) - by_hand).abs().max()),
        "unread": float((odd.grad == 0).double().mean()),
    }


def percent(found: Findings, arm: str, metric: str) -> str:
    """Mean and range over seeds."""
    least, most = found.least(arm, metric), found.most(arm, metric)
    return f"{100 * found.mean(arm, metric):.0f} % ({100 * least:.0f} to {100 * most:.0f})"


def sure(found: Findings, arm: str, metrics: tuple[str, str]) -> float:
    """How far one metric leads another of the same arm for certain: the least of the seeds."""
    return min(one - other for one, other in zip(*(found.values(arm, metric) for metric in metrics), strict=True))


@claim("Patches are a convolution whose kernel is its stride, of any shape", source="004, vision in practice")
def judge_cut(found: Findings) -> Verdict:
    """Confirmed where it is patches cut by hand and mapped, to 1e-12; conditional where pixels of other sizes go unread."""
    error, unread = found.most("patches", "error"), found.mean("patches", "unread")
    said = f"they differ by {error:.0e}; of 13 x 21 pixels patches of 2 x 4 leave {100 * unread:.1f} % unread, without a word"
    if error > 1e-12:
        return Verdict("refuted", said)
    return (
        Verdict("conditional", said, "the patches' sides divide the image's, or it is padded")
        if unread
        else Verdict("confirmed", said)
    )


@claim("Positions are a key part of a vision Transformer", source="004, two axes")
def judge_needed(found: Findings) -> Verdict:
    """Confirmed where every encoding leads none by 5 points, its interval above 0."""
    gains = {arm: found.difference(arm, "none", "accuracy") for arm in MODELS if arm != "none"}
    said = ", ".join(f"{arm} {percent(found, arm, 'accuracy')}" for arm in MODELS)
    right = [gain.mean >= 0.05 and (gain.low is None or gain.low > 0) for gain in gains.values()]
    return Verdict("confirmed" if all(right) else "refuted", f"held-out digits: {said}")


@claim("A mask keeps the model from attending to padding", source="004, vision in practice")
def judge_mask(found: Findings) -> Verdict:
    """Confirmed where no logit moves by more than 1e-10, whatever fills it; conditional where ways of padding break it."""
    worst = {
        name: max(found.most(arm, name) for arm in MODELS)
        for name in ("masked, 0", "masked, 7", "ragged", "places spread")
    }
    said = "largest change of a logit: " + ", ".join(f"{name} {change:.1g}" for name, change in worst.items())
    said += f"; without a mask {min(found.least(arm, 'no mask') for arm in MODELS):.1g} or more"
    if max(worst["masked, 0"], worst["masked, 7"]) > 1e-10:
        return Verdict("refuted", said)
    traps = {"ragged": "no patch is partly padding", "places spread": "the real patches keep their places"}
    broken = [trap for name, trap in traps.items() if worst[name] > 1e-10]
    return Verdict("conditional", said, " and ".join(broken)) if broken else Verdict("confirmed", said)


@claim("A learned table adapts to other grids by bilinear interpolation", source="004, vision in practice")
def judge_table(found: Findings) -> Verdict:
    """Refuted where at 12 x 12 it does not lead a clamped and a shuffled one by 25 points in every seed, confirmed where at 16 x 16 it
    loses 5 points at most, else conditional.
    """
    names = ("accuracy", "12 scaled", "12 clamped", "12 shuffled", "16 scaled")
    said = "learned table: " + ", ".join(f"{name} {percent(found, 'learned', name)}" for name in names)
    lost = found.mean("learned", "accuracy") - found.mean("learned", "16 scaled")
    if min(sure(found, "learned", ("12 scaled", name)) for name in names[2:4]) < 0.25:
        return Verdict("refuted", said)
    if lost <= 0.05:
        return Verdict("confirmed", said)
    return Verdict(
        "conditional",
        said,
        f"less may be right: it leads a clamped table, and loses {100 * lost:.0f} points at 16 x 16",
    )


@claim("Relative encodings adapt to images of any size by nature", source="004, vision in practice")
def judge_relative(found: Findings) -> Verdict:
    """Confirmed where no logit moves by 1e-10 when the canvas grows, and accuracy by 5 points when the picture does (16 x 16);
    conditional where on the canvas alone.
    """
    arms = ("relative", "axial")
    names = ("accuracy", "moved", "12 counted", "16 counted", "16 scaled")
    said = "; ".join(f"{arm}: " + ", ".join(f"{name} {percent(found, arm, name)}" for name in names) for arm in arms)
    said += "; absolute ones moved: " + ", ".join(
        f"{arm} {percent(found, arm, 'moved')}" for arm in ("learned", "sinusoid")
    )
    shifts = max(found.most(arm, "shifted") for arm in arms) <= 1e-10
    resized = all(found.mean(arm, "16 counted") >= found.mean(arm, "accuracy") - 0.05 for arm in arms)
    if shifts and resized:
        return Verdict("confirmed", said)
    return (
        Verdict("conditional", said, "the canvas grows, and not what is on it") if shifts else Verdict("refuted", said)
    )


def draw(found: Findings) -> Figure:
    from matplotlib.figure import Figure

    figure = Figure(figsize=(10, 3.6), layout="constrained")
    left, right = figure.subplots(1, 2, width_ratios=(3, 2))
    bars = {"8 x 8": "accuracy", "moved": "moved", "12 x 12, spread": "12 scaled", "12 x 12, counted": "12 counted"}
    bars |= {"16 x 16, spread": "16 scaled", "16 x 16, counted": "16 counted"}
    for column, arm in enumerate(MODELS):
        for row, (name, metric) in enumerate(bars.items()):
            if (arm, metric[3:]) == ("learned", "counted"):
                continue
            values, place = 100 * found.curve(arm, metric), column + (row - 2.5) * 0.14
            look = {"color": str(1 - 0.15 * row), "edgecolor": "black", "label": name if column == 1 else None}
            left.bar(place, values.mean(), 0.13, **look)
            left.plot([place] * len(values), values, "k.", ms=3)
    left.axhline(10, color="black", ls=":", lw=1)
    left.set(
        xticks=range(len(MODELS)), xticklabels=list(MODELS), ylabel="right digits (%), chance dotted", ylim=(0, 130)
    )
    left.set_title(f"mean, a dot a seed (n={len(found.values('none', 'accuracy'))}); 497 images each", fontsize=10)
    left.set_yticks(range(0, 101, 20))
    left.legend(fontsize=8, ncols=3, loc="upper center")
    for row, name in enumerate(("masked, 0", "masked, 7", "no mask", "places spread", "ragged")):
        for arm, mark in zip(MODELS, "os^xD", strict=True):
            shown = max(found.most(arm, name), 1e-17)
            right.plot(shown, row, mark, color="black", mfc="white", ms=6, label=arm if row == 0 else None)
    right.set(xscale="log", xlabel="largest change of a logit (float64)", ylim=(4.5, -0.5))
    right.set_yticks(
        range(5),
        ["mask, filled with 0", "mask, filled with 7", "no mask", "mask, places spread", "part of a patch filled"],
    )
    right.legend(fontsize=8, loc="upper center")
    return figure


STUDY = Study(
    name="vision",
    subject="Images of other sizes in a vision Transformer: patches, masks, resized and moved pictures",
    data="scikit-learn's digits, 1,797 of 8 x 8 pixels, 497 of them held out by seed; resized bilinearly, or on a canvas of 16 x 16",
    measure="accuracy on held-out digits (chance 10 %); largest change of a logit, of a patch's vector (float64)",
    smallest="5 points of accuracy; 25 over a broken table; 1e-10 for a mask",
    arms={**MODELS, **PATCHES},
    controls=[
        Control(
            says="without positions accuracy is 5 points or more below a learned table's",
            arm="none",
            mechanism="learned",
            fails=lambda found: found.mean("none", "accuracy") <= found.mean("learned", "accuracy") - 0.05,
        ),
        Control(
            says="patches read column by column are not the convolution's: more than .1",
            arm="patches, turned",
            mechanism="patches",
            fails=lambda found: found.least("patches, turned", "error") > 0.1,
        ),
    ],
    claims=[
        judge_cut,
        judge_needed,
        judge_mask,
        judge_table,
        judge_relative,
    ],
    full=Budget(seeds=4, steps=600),
    quick=Budget(seeds=3, steps=300),
    run=run,
    draw=draw,
)
