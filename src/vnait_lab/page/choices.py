"""Which of the papers' choices matter."""

from __future__ import annotations

from vnait.results.record import Record
from vnait_lab.page.parts import Judged, Section, bounded, table
from vnait_lab.runs.choices import ENOUGH, FACTORS, SHOTS, design, effects, verdict
from vnait_lab.suites.few_labels import SETS

COMMAND = "VNAIT_DATA=DIR python -m vnait_lab.runs.choices"


def section(found: list[Record]) -> Section:
    drawn = {str(one.data["name"]) for one in found if one.method in design()}
    sets = [name for name in SETS if name in drawn]
    claim = Judged(
        f"With {SHOTS} labels per class none of the papers' choices of layers, width, activation, relation, "
        f"vectors, smoothness and bounds changes the accuracy of `vnait-paper` by {100 * ENOUGH:g} point or "
        f"more, on {', '.join(sets)}",
        verdict(found),
        COMMAND,
        source="000, sections 3.4 to 3.9, choices",
    )
    by_set = {name: effects([one for one in found if one.data["name"] == name]) for name in sets}
    pooled = effects(found)
    lines = [
        [
            factor,
            *levels,
            bounded(pooled.get(factor), "+"),
            *(bounded(by_set[name].get(factor), "+") for name in sets),
        ]
        for factor, levels in FACTORS.items()
    ]
    heads = ["choice", "from", "to", "all sets", *sets]
    return Section(
        f"""## The papers' choices

`vnait-paper` without a linear part, {SHOTS} labels per class: what a change of one choice adds, in points of
accuracy (MCC on CoLA) on test.csv. Mean of the eight arms with the second level minus mean of the eight with
the first, with its 95 % interval over draws of rows. Command: `{COMMAND}`.

{table(heads, lines)}""",
        [claim],
    )
