"""Images of other sizes in a vision Transformer: padding with a mask, and positions that stretch or shift.

A mask over padding (of the keys and of the pooling) hides it exactly, if the real patches keep their places and none of them is partly
padding. A learned table of (row, column) is read between its entries on a finer grid. Distances need no table of places: a picture may
stand anywhere on a canvas. But a picture that is resized has twice the distances and other patches, and neither says that it was
resized. The model is in `viewer`; how an image is cut into patches is the study `patches`.
"""

from __future__ import annotations

from math import nan

import torch
from matplotlib.figure import Figure
from torch import Generator, Tensor
from torch.nn import functional as F

from vnait.studies.figures import bars, dots, panels
from vnait.studies.parts.viewer import PATCH, SIDE, Viewer, grid, train
from vnait.study import Budget, Control, Findings, Metrics, Study, Verdict, claim

MODELS = {
    "learned": "a learned table of 4 x 4 vectors",
    "sinusoid": "[PE(row), PE(column)], base 100",
    "relative": "a learned bias of the row's distance and of the column's",
    "axial": "queries and keys turned by row and column",
    "none": "no positions",
}


def run(arm: str, seed: int, budget: Budget) -> Metrics:
    model, images, labels = train(arm, seed, budget.steps)

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


def percent(found: Findings, arm: str, metric: str) -> str:
    """Mean and range over seeds."""
    least, most = found.least(arm, metric), found.most(arm, metric)
    return f"{100 * found.mean(arm, metric):.0f} % ({100 * least:.0f} to {100 * most:.0f})"


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
    ways = ("masked, 0", "masked, 7", "ragged", "places spread")
    worst = {name: max(found.most(arm, name) for arm in MODELS) for name in ways}
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
    whole = found.curve("learned", "12 scaled")
    leads = [whole - found.curve("learned", broken) for broken in ("12 clamped", "12 shuffled")]
    lost = found.mean("learned", "accuracy") - found.mean("learned", "16 scaled")
    if min(lead.min() for lead in leads) < 0.25:
        return Verdict("refuted", said)
    if lost <= 0.05:
        return Verdict("confirmed", said)
    condition = f"less may be right: it leads a clamped table, and loses {100 * lost:.0f} points at 16 x 16"
    return Verdict("conditional", said, condition)


@claim("Relative encodings adapt to images of any size by nature", source="004, vision in practice")
def judge_relative(found: Findings) -> Verdict:
    """Confirmed where no logit moves by 1e-10 when the canvas grows, and accuracy by 5 points when the picture does (16 x 16);
    conditional where on the canvas alone.
    """
    arms = ("relative", "axial")
    names = ("accuracy", "moved", "12 counted", "16 counted", "16 scaled")
    said = "; ".join(f"{arm}: " + ", ".join(f"{name} {percent(found, arm, name)}" for name in names) for arm in arms)
    absolute = [f"{arm} {percent(found, arm, 'moved')}" for arm in ("learned", "sinusoid")]
    said += f"; absolute ones moved: {', '.join(absolute)}"
    shifts = max(found.most(arm, "shifted") for arm in arms) <= 1e-10
    resized = all(found.mean(arm, "16 counted") >= found.mean(arm, "accuracy") - 0.05 for arm in arms)
    if not shifts:
        return Verdict("refuted", said)
    if resized:
        return Verdict("confirmed", said)
    return Verdict("conditional", said, "the canvas grows, and not what is on it")


def draw(found: Findings) -> Figure:
    figure, (left, right) = panels(2, 1, size=(11, 3.8))
    sizes = {"8 x 8": "accuracy", "moved": "moved", "12 x 12, spread": "12 scaled", "12 x 12, counted": "12 counted"}
    sizes |= {"16 x 16, spread": "16 scaled", "16 x 16, counted": "16 counted"}

    def accuracy(arm: str, metric: str) -> list[float]:
        if arm == "learned" and metric.endswith("counted"):  # places past a table's end
            return [nan]
        return list(100 * found.curve(arm, metric))

    bars(left, list(MODELS), {name: [accuracy(arm, metric) for arm in MODELS] for name, metric in sizes.items()})
    left.axhline(10, color="black", ls=":", lw=1)
    left.set(ylabel="right digits (%), chance dotted", ylim=(0, 130), yticks=range(0, 101, 20))
    left.set_title(f"mean, a dot a seed (n={len(found.values('none', 'accuracy'))}); 497 images each")
    left.legend(ncols=3, loc="upper center")
    ways = {"masked, 0": "mask, filled with 0", "masked, 7": "mask, filled with 7", "no mask": "no mask"}
    ways |= {"places spread": "mask, places spread", "ragged": "part of a patch filled"}
    dots(right, list(ways.values()), {arm: [found.values(arm, way) for way in ways] for arm in MODELS})
    right.set(xscale="log", xlabel="largest change of a logit (float64)", title="a mark a seed")
    right.set(xticks=[1e-15, 1e-10, 1e-5, 1])
    right.legend(loc="upper center")
    return figure


STUDY = Study(
    name="vision",
    subject="Images of other sizes in a vision Transformer: masks, resized and moved pictures",
    data="scikit-learn's digits, 1,797 of 8 x 8 pixels, 497 of them held out by seed; resized bilinearly, or on a canvas of 16 x 16",
    measure="accuracy on held-out digits (chance 10 %); largest change of a logit (float64)",
    smallest="5 points of accuracy; 25 over a broken table; 1e-10 for a mask",
    arms=MODELS,
    controls=[
        Control(
            says="without positions accuracy is 5 points or more below a learned table's",
            arm="none",
            mechanism="learned",
            fails=lambda found: found.mean("none", "accuracy") <= found.mean("learned", "accuracy") - 0.05,
        ),
    ],
    claims=[judge_needed, judge_mask, judge_table, judge_relative],
    full=Budget(seeds=4, steps=600),
    quick=Budget(seeds=3, steps=300),
    run=run,
    draw=draw,
)
