"""Methods on tasks of lengths that decided no choice, and on those that did so later."""

from __future__ import annotations

from vnait.results.record import Record
from vnait_lab.page.length import by_length
from vnait_lab.page.parts import Judged, Section
from vnait_lab.runs.held_out import HELD_OUT, SEEN
from vnait_lab.suites import length


def section(everything: list[Record]) -> Section:
    found, seen = ([one for one in everything if one.data["name"] in tasks] for tasks in (HELD_OUT, SEEN))
    claim = Judged(
        "The same on tasks written after the last change of `vnait` and before they were run",
        length.verdict(length.SUITE.summary(found), "vnait", tasks=tuple(HELD_OUT)),
        "python -m vnait_lab.runs.held_out",
        source="000, section 4.2, unseen lengths",
    )
    text = """## Held-out tasks

The same setting; the tasks are in `src/vnait_lab/runs/held_out.py`. The three earlier sets of tasks follow;
their results have changed `vnait`, so they are no longer held out."""
    tables = [*by_length(found, "Held out, "), *by_length(seen, "Held out before, ")]
    return Section("\n\n".join([text, *tables]), [claim])
