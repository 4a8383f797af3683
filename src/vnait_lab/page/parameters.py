"""Parameters of `vnait` next to a table of positions, and what its smaller parts cost in accuracy."""

from __future__ import annotations

from vnait import build
from vnait.positions.building import parameters
from vnait.results.record import Record
from vnait_lab.page.parts import Judged, Section, table
from vnait_lab.study import Verdict
from vnait_lab.suites import few_labels
from vnait_lab.suites.few_labels import QUICK

WIDTHS = (64, 128, 256, 512, 768, 1024)
ROWS = 512  # of a learned table, as in BERT


def section(found: list[Record]) -> Section:
    counts = {width: parameters(build("vnait", dim=width)) for width in WIDTHS}
    shares = [100 * count / (ROWS * width) for width, count in counts.items()]
    claims = [
        Judged(
            f"`vnait` has fewer parameters than a table of {ROWS} positions at every width from 64 to 1,024",
            Verdict(
                "confirmed" if max(shares) < 100 else "refuted",
                f"{min(shares):.0f} to {max(shares):.0f} % of the table",
            ),
            "python -m vnait_lab.page",
            source="000, section 4.1",
        ),
        Judged(
            "`vnait-warp` loses no accuracy against the papers' sizes: less than 0.5 points with "
            f"{QUICK} labels per class, pooled over sets, before 2026-11-24",
            few_labels.no_loss(
                [one for one in found if one.data["shots"] == QUICK], "vnait-warp", shots=(QUICK,)
            ),
            "VNAIT_DATA=DIR vnait study few-labels --methods vnait-warp,vnait-paper --seeds 10 --quick --out "
            "studies/records/few_labels_before",
            source="000, section 4.1",
        ),
    ]
    lines = [
        [f"{width:,}", f"{count:,}", f"{parameters(build('vnait-paper', dim=width)):,}", f"{ROWS * width:,}"]
        for width, count in counts.items()
    ]
    heads = ["width", "vnait", "vnait-paper (the papers' sizes)", f"table of {ROWS} rows"]
    return Section(f"## Parameters\n\nCounted on the built modules.\n\n{table(heads, lines)}", claims)
