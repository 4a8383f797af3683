"""The sources of learned gaps, their penalty, and ends counted in them."""

from __future__ import annotations

from vnait.results.record import Record
from vnait_lab.page.ablation import far
from vnait_lab.page.parts import Section, over_seeds, percent, table
from vnait_lab.runs.gaps import ENDS, GAMMAS, SOURCES


def section(found: list[Record]) -> Section:
    run = found[0].run
    tasks = list(dict.fromkeys(str(one.data["name"]) for one in found))
    text = f"""## Learned gaps: source, ends, penalty

Tasks of the elastic suite, {run["steps"]:,} steps; accuracy in % at 320 and 500 tokens, mean with its 95 %
interval over seeds. Gaps are uniform, a learned curve over the text (warp), a softplus of three neighbouring
words (content), or gated; the distances from the ends count tokens, gaps, or both are given; gamma_1 weighs
the smoothness penalty. Neighbours are of the raw text. Command: `python -m vnait_lab.runs.gaps`."""
    return Section("\n\n".join([text, *(f"### `{task}`\n\n{by_arm(found, task)}" for task in tasks)]))


def by_arm(found: list[Record], task: str) -> str:
    """A row per source and ends, a column per gamma_1."""
    lines: list[list[object]] = []
    for source in SOURCES:
        for ends in ENDS:
            own = [
                [
                    one
                    for one in found
                    if one.method == f"{source}, {ends} ends, {gamma}" and one.data["name"] == task
                ]
                for gamma in GAMMAS
            ]
            if any(own):
                cells = [percent(over_seeds(cell, far).values()) if cell else "" for cell in own]
                lines.append([source, ends, *cells])
    return table(["gaps", "ends", *(f"gamma_1 = {gamma}" for gamma in GAMMAS)], lines)
