"""A number per text: how large programs are."""

from __future__ import annotations

from vnait.results.record import Record
from vnait.shared.statistics import interval
from vnait_lab.page.parts import Judged, Section, percent, table
from vnait_lab.runs import by_seed
from vnait_lab.runs.package_sizes import BAGS
from vnait_lab.runs.packages import LEARNED, METHODS_RUN, POSITIONS, verdict

COMMAND = "python -m vnait_lab.runs.package_sizes available"
SOURCE = "this project, a number per text"


def section(found: list[Record]) -> Section:
    claims = [
        Judged(
            f"{statement} from {rows} descriptions",
            verdict(found, rows, others, "spearman"),
            COMMAND,
            source=SOURCE,
        )
        for statement, others in (
            ("`vnait` ranks programs by size better than bags of words", BAGS),
            ("Positions help `vnait` to rank programs by size", POSITIONS),
        )
        for rows in LEARNED
    ]
    lines: list[list[object]] = []
    for method in ("mean", *BAGS, *METHODS_RUN):
        errors = (by_seed(found, method, "rmse", shots=rows).values() for rows in LEARNED)
        ranks = (
            "-" if method == "mean" else percent(by_seed(found, method, "spearman", shots=rows).values())
            for rows in LEARNED
        )
        shown = (interval(list(one)).written("{:.3f}") for one in errors)
        lines.append([method, *(cell for pair in zip(shown, ranks, strict=True) for cell in pair)])
    heads = [f"{what}, {rows}" for rows in LEARNED for what in ("error", "rank")]
    text = f"""## A number per text: how large programs are

The decimal logarithm of the installed size of Debian's programs, from one-line descriptions, on 1,000 test
descriptions of other source packages. Error: root mean square, in decades. Rank: Spearman's rank correlation
in %. Learned from {" and ".join(f"{rows:,}" for rows in LEARNED)} descriptions; mean over draws with its 95 %
interval. Command: `{COMMAND}`, where `apt-cache dumpavail` wrote `available`.

{table(["method", *heads], lines)}"""
    return Section(text, claims)
