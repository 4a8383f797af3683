"""Several labels per text: what programs are for."""

from __future__ import annotations

from vnait.results.record import Record
from vnait_lab.page.parts import Judged, Section, percent, table
from vnait_lab.runs import by_seed
from vnait_lab.runs.package_tags import BAGS
from vnait_lab.runs.packages import LEARNED, METHODS_RUN, POSITIONS, verdict

COMMAND = "python -m vnait_lab.runs.package_tags available"
SOURCE = "this project, several labels per text"


def section(found: list[Record]) -> Section:
    claims = [
        Judged(
            f"{statement} from {rows} descriptions of programs",
            verdict(found, rows, others),
            COMMAND,
            source=SOURCE,
        )
        for statement, others in (
            ("`vnait` learns labels better than bags of words", BAGS),
            ("Positions help `vnait` to learn labels", POSITIONS),
        )
        for rows in LEARNED
    ]
    lines = [
        [method, *(percent(by_seed(found, method, "micro_f1", shots=rows).values()) for rows in LEARNED)]
        for method in (*BAGS, *METHODS_RUN)
    ]
    text = f"""## Several labels per text: what programs are for

Micro F1 in % of tags of Debian's packages (31 that say what a program does, and with what) from one-line
descriptions, on 1,000 test descriptions of other source packages; mean over draws with its 95 % interval.
Command: `{COMMAND}`, where `apt-cache dumpavail` wrote `available`.

{table(["method", *(f"{rows} descriptions" for rows in LEARNED)], lines)}"""
    return Section(text, claims)
