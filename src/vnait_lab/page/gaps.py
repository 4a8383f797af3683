"""The sources of learned gaps, their penalty, and ends counted in them."""

from __future__ import annotations

from vnait.record import Record
from vnait_lab.page.ablation import far
from vnait_lab.page.parts import Section, over_seeds, percent, table
from vnait_lab.runs.gaps import ENDS, GAMMAS, SOURCES


def section(found: list[Record]) -> Section:
    run = found[0].run
    tasks = list(dict.fromkeys(one.data["name"] for one in found))
    lines: list[list[object]] = []
    for source in SOURCES:
        for ends in ENDS:
            own = [
                [one for one in found if one.method == f"{source}, {ends} ends, {gamma}"] for gamma in GAMMAS
            ]
            if any(own):
                cells = [percent(over_seeds(cell, far).values()) if cell else "" for cell in own]
                lines.append([source, ends, *cells])
    heads = ["gaps", "ends", *(f"gamma_1 = {gamma}" for gamma in GAMMAS)]
    return Section(f"""## Learned gaps: source, ends, penalty

The elastic suite's tasks {" and ".join(f"`{task}`" for task in tasks)}, {run["steps"]:,} steps; accuracy in %
at 320 and 500 tokens, mean over tasks, with its 95 % interval over seeds. Gaps are uniform, a learned curve
over the text (warp), a softplus of three neighbouring words (content), or gated; the distances from the ends
count tokens, gaps, or both are given; gamma_1 weighs the smoothness penalty. Neighbours are of the raw text.
Command: `python -m vnait_lab.runs.gaps`.

{table(heads, lines)}""")
