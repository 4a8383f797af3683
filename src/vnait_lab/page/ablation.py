"""`vnait-warp` and `vnait` without one of their parts, on tasks of the length suite."""

from __future__ import annotations

from collections.abc import Sequence

from vnait.results.record import Record
from vnait_lab.page.parts import Judged, Section, difference, mean, over_seeds, table
from vnait_lab.runs import ahead
from vnait_lab.runs.ablation import OF, TASKS

COMMAND = "python -m vnait_lab.runs.ablation"
WITHOUT = {"vnait": "vnait without relation", "vnait-warp": "no relation"}  # the arm without the relation


def section(found: list[Record]) -> Section:
    claims = [
        Judged(
            f"The relation of e and s makes `{whole}` better, over {len(TASKS)} tasks of the length suite",
            ahead({one: scores(found, one) for one in (whole, arm)}, whole),
            COMMAND,
            source="000, section 3.6, relation",
        )
        for whole, arm in WITHOUT.items()
    ]
    text = f"""## Ablation of `vnait-warp` and `vnait`

`vnait-warp` was `vnait` until 2026-11-25. In the setting of the length suite; accuracy in % at 320 and 500
tokens, mean over seeds. The last column is the paired difference, over these tasks, to the method of which an
arm lacks a part, with its 95 % interval over seeds. Command:
`{COMMAND}`.

{ablated(found, TASKS)}"""
    more = list(dict.fromkeys(one.data["name"] for one in found if one.data["name"] not in TASKS))
    if more:
        arms = {one.method for one in found if one.data["name"] == more[0]}
        text += f"""

On further tasks, some of them from `src/vnait_lab/runs/held_out.py`:

{ablated([one for one in found if one.method in arms], more)}"""
    return Section(text, claims)


def scores(found: Sequence[Record], arm: str) -> dict[int, float]:
    """Per seed, the accuracy of an arm over all tasks."""
    return over_seeds([one for one in found if one.method == arm and one.data["name"] in TASKS], far)


def ablated(everything: Sequence[Record], tasks: Sequence[str]) -> str:
    """One line per arm: its accuracy per task, and its difference to the whole method if all tasks ran."""
    found = [one for one in everything if one.data["name"] in tasks]
    lines: list[list[object]] = []
    for whole, arms in OF.items():
        base = over_seeds([one for one in found if one.method == whole], far)
        for arm in dict.fromkeys([whole, *arms]):
            own = [one for one in found if one.method == arm]
            if not own:
                continue
            scores = over_seeds(own, far)
            each = [mean(far(one) for one in own if one.data["name"] == task) for task in tasks]
            complete = {one.data["name"] for one in own} == set(tasks)
            minus = difference(scores, base) if arm != whole and complete else ""
            lines.append([arm, len(scores), *each, minus])
    return table(["arm", "seeds", *tasks, "minus the whole"], lines)


def far(one: Record) -> float:
    return float(one.metrics["accuracy_320"] + one.metrics["accuracy_500"]) / 2
