"""Language models: losses by the length that is read, as tables and a figure."""

from __future__ import annotations

from functools import partial
from statistics import fmean

import matplotlib
import numpy as np
from matplotlib.figure import Figure

from vnait.results.record import Record
from vnait_lab import STUDIES
from vnait_lab.page.parts import Judged, Section, per_name, prose, table
from vnait_lab.records import by_method, points, read, values_of, where
from vnait_lab.runs.decoders import DEFAULT
from vnait_lab.studies.figures import STYLE, Lines
from vnait_lab.studies.figures import figure as figure_of
from vnait_lab.suites.language import LENGTHS, TRAINED, loss_of, verdict

FIGURE = "records/decoders/losses.png"  # in the page's folder
COMMAND = "VNAIT_DATA=DIR python -m vnait_lab.runs.decoders"


def of_decoders(records: list[Record]) -> Section:
    """Decoders with the same neighbours."""
    claim = Judged(
        f"With the same neighbours `{DEFAULT}` predicts the next token best of all decoders, at every length",
        verdict(records, DEFAULT, masked=False),
        COMMAND,
        source="000, section 5.2, decoders",
    )
    text = prose(
        "decoders",
        run=records[0].run,
        trained=TRAINED,
        longest=LENGTHS[-1],
        default=DEFAULT,
        command=COMMAND,
        figure=FIGURE,
    )
    tables = partial(losses, records, DEFAULT)
    return Section(per_name(text, values_of(records, "name"), tables), [claim])


def of_masked(records: list[Record]) -> Section:
    """The default beside its control, as models of masked tokens."""
    text = prose("masked", run=records[0].run, trained=TRAINED, longest=LENGTHS[-1])
    return Section(per_name(text, values_of(records, "name"), partial(losses, records, "vnait")))


def losses(records: list[Record], default: str, name: str) -> str:
    """A line per method, the lowest loss at the training length first."""
    by_length = {length: of_length(records, name, length) for length in LENGTHS}
    trained = by_length[TRAINED]
    lines: list[list[object]] = []
    for method in sorted(trained, key=lambda method: fmean(trained[method].values())):
        means = (f"{fmean(by[method].values()):.3f}" for by in by_length.values())
        leads = (
            "" if method == default else points(by[default], by[method]).times(0.01).written("{:+.3f}")
            for by in (trained, by_length[LENGTHS[-1]])
        )
        lines.append([method, len(trained[method]), *means, *leads])
    heads = [f"{default} minus it, {length:,}" for length in (TRAINED, LENGTHS[-1])]
    return table(["method", "seeds", *(f"{length:,}" for length in LENGTHS), *heads], lines)


def of_length(records: list[Record], name: str, length: int) -> dict[str, dict[int, float]]:
    """Decoder -> seed -> the loss on a text in windows of a length."""
    records = where(records, name=name)
    return by_method(records, partial(loss_of, length=length), values_of(records, "method"))


def draw(records: list[Record]) -> Figure:
    """A panel per text, a line per decoder. Losses far above the others' are cut off."""
    panels: list[Lines] = []
    for name in values_of(records, "name"):
        by_length = [of_length(records, name, length) for length in LENGTHS]
        # In one order for all panels, which share the colours of the legend; records have several orders.
        curves = {
            method: np.array([[*by[method].values()] for by in by_length]).T
            for method in values_of(records, "method")
        }
        low = min(curve.min() for curve in curves.values())
        height = 2.5 * (max(curve.mean(0)[0] for curve in curves.values()) - low)
        panels.append(
            Lines(
                LENGTHS,
                curves,
                "tokens read",
                "loss per token, nats",
                title=name.removeprefix("next-"),
                legend="" if panels else "below",
                xscale="log",
                ylim=(low - height / 20, low + height),
                xticks=LENGTHS,
                xticklabels=LENGTHS,
            )
        )
    return figure_of(*panels, size=(12, 4.4))


def draw_figure() -> None:
    """The figure of the page, if there are records."""
    if records := read("decoders"):
        with matplotlib.rc_context(STYLE):
            drawn = draw(records)
            drawn.savefig(STUDIES / FIGURE, dpi=110, metadata={"Software": None})
