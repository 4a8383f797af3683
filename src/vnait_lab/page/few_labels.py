"""Methods and baselines on few labels: scores, differences to this project's method, learning curves.

The present recipe, and that of before 2026-11-24, when one training replaced two.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from vnait.positions.methods import METHODS
from vnait.results.record import Record
from vnait.results.results import interval_of
from vnait.train.baselines import BASELINES
from vnait_lab.page.parts import Judged, Section, bounded, table
from vnait_lab.suites import few_labels
from vnait_lab.suites.few_labels import QUICK, SHOTS, SPLITS


def before(everything: list[Record]) -> Section:
    """The same of older records, with the default of their time."""
    return section(everything, "vnait-warp", "Few labels, before 2026-11-24", "few_labels_before", "")


def section(
    everything: list[Record],
    own: str = "vnait",
    title: str = "Few labels",
    folder: str = "few_labels",
    options: str = " --quick --methods vnait,vnait-warp",
) -> Section:
    order = [*BASELINES, *METHODS]
    found = sorted(everything, key=lambda one: (str(one.data["name"]), order.index(one.method)))
    labels = [int(one.data["shots"]) for one in found if one.method == own]
    numbers = " to ".join(map(str, dict.fromkeys((min(labels), max(labels)))))
    claim = Judged(
        f"{title}: with {numbers} labels per class `{own}` is above every method, pooled over sets, above "
        "both baselines where order matters, and below them nowhere",
        few_labels.verdict(found, own),
        f"VNAIT_DATA=DIR vnait study few-labels --seeds 10{options} --out studies/records/{folder}",
        source="000, section 1.2, few labels",
    )
    areas = {(row["set"], row["method"]): row for row in few_labels.areas(found)}
    sets = list(dict.fromkeys(name for name, _ in areas))
    methods = sorted({method for _, method in areas}, key=order.index)
    more = {key: row["splits"] for key, row in areas.items() if row["splits"] > SPLITS}
    sets_of_more, methods_of_more = (sorted({key[part] for key in more}) for part in (0, 1))
    curves = few_labels.curves(found)
    at_quick = [one for one in found if one.data["shots"] == QUICK]
    of_more = [one for one in found if len(curves[str(one.data["name"]), one.method, one.seed]) > 1]
    text = f"""## {title}

{QUICK} labels per class, in points (Matthews correlation on CoLA, else accuracy), mean over splits
with its 95 % interval: {SPLITS}
splits{
        f"; up to {max(more.values())} of {', '.join(methods_of_more)} on {' and '.join(sets_of_more)}"
        if more
        else ""
    }.

{heights(at_quick, methods, sets)}

`{own}` minus each other method on the same splits, with {QUICK} labels per class: mean over the
sets that all methods have, over the sets that both have, and per set.

{differences(at_quick, sets, own)}
"""
    if any(one.method == own for one in of_more):
        text += f"""
The same for the area under the learning curve, over log2 of the numbers of labels that both have, if these
are two or more.

{differences(of_more, sets, own)}

Learning curves and the area under them, where more than {QUICK} labels per class were run (-: a
class has fewer rows).

{learning_curves(found, areas)}
"""
    return Section(text.rstrip(), [claim])


def heights(found: Sequence[Record], methods: Sequence[str], sets: Sequence[str]) -> str:
    """The score of every method on every set, of records with one number of labels."""
    cells = {(row["set"], row["method"]): interval_of(row) for row in few_labels.rows(found)}
    lines = [[method, *(bounded(cells.get((name, method))) for name in sets)] for method in methods]
    return table(["method", *sets], lines)


def differences(found: Sequence[Record], sets: Sequence[str], own: str = "vnait") -> str:
    """`own` minus each other method: over the sets that all have, that both have, and per set."""
    pairs = few_labels.paired(found, own)
    cells = {(row["set"], row["against"]): interval_of(row) for row in pairs}
    others = list(dict.fromkeys(row["against"] for row in pairs))
    shown = [name for name in sets if any(row["set"] == name for row in pairs)]
    common = [name for name in shown if all((name, other) in cells for other in others)]
    of_common = few_labels.paired([one for one in found if one.data["name"] in common], own)
    pooled = {row["against"]: interval_of(row) for row in of_common if row["set"] is None}
    lines = [
        [
            other,
            bounded(pooled.get(other), "+"),
            *(bounded(cells.get((name, other)), "+") for name in (None, *shown)),
        ]
        for other in others
    ]
    return table(["method", ", ".join(common), "pooled", *shown], lines)


def learning_curves(found: Sequence[Record], areas: dict[tuple[str, str], dict[str, Any]]) -> str:
    """One line per set and method that ran with two or more numbers of labels."""
    cells = {(row["set"], row["method"], row["shots"]): interval_of(row) for row in few_labels.rows(found)}
    lines = [
        [*key, *(bounded(cells.get((*key, shots))) for shots in SHOTS), bounded(interval_of(row))]
        for key, row in areas.items()
        if sum((*key, shots) in cells for shots in SHOTS) > 1
    ]
    return table(["set", "method", *map(str, SHOTS), "area"], lines)
