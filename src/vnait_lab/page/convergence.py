"""How many steps a method needs."""

from __future__ import annotations

from vnait.results.record import Record
from vnait_lab.page.parts import Judged, Section, percent, table
from vnait_lab.runs.convergence import ENOUGH, SHOTS, STEPS, curves, steps_to, verdict

COMMAND = "VNAIT_DATA=DIR python -m vnait_lab.runs.convergence"


def section(found: list[Record]) -> Section:
    sets = list(dict.fromkeys(str(one.data["name"]) for one in found))
    claim = Judged(
        f"With {SHOTS} labels per class `vnait` converges in fewer steps than `none`, `sinusoidal`, `rope` "
        f"and `alibi`, on {', '.join(sets)}",
        verdict(found, "vnait"),
        COMMAND,
        source="001, data efficiency, convergence",
    )
    text = f"""## Steps to converge

Accuracy in % on test.csv after trainings of so many steps, each with its own schedule, {SHOTS} labels per
class, mean over draws of rows with its 95 % interval; last the steps to {ENOUGH:.0%} of a method's own best
accuracy, geometric mean. The verdict compares steps to {ENOUGH:.0%} of the best accuracy of the worse of two
methods. Command: `{COMMAND}`."""
    return Section(
        "\n\n".join([text, *(f"### {name}\n\n{by_method(found, name)}" for name in sets)]), [claim]
    )


def by_method(found: list[Record], name: str) -> str:
    by_arm: dict[str, list[dict[int, float]]] = {}
    for (of, arm, _), curve in curves(found).items():
        if of == name:
            by_arm.setdefault(arm, []).append(curve)
    lines: list[list[object]] = []
    for arm, drawn in by_arm.items():
        scores = [percent(curve[steps] for curve in drawn) for steps in STEPS]
        needed = [steps_to(ENOUGH * max(curve.values()), curve) for curve in drawn]
        lines.append([arm, *scores, round(2 ** (sum(needed) / len(needed)))])
    return table(["method", *(f"{steps} steps" for steps in STEPS), "steps to 95 %"], lines)
