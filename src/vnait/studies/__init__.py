"""The studies, a claim of the source documents (or of the field) each: how `vnait study` finds them.

A file here is a study: its docstring says what it teaches, and `STUDY` holds its arms, its rules and its figure. `suites` has the
four long ones (length, algorithmic, decoding, few-labels), which compare all methods and take hours.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any

import matplotlib

from vnait import study
from vnait.errors import InputError, meant
from vnait.files import whole_file
from vnait.studies.figures import STYLE
from vnait.studies.suites import SUITES
from vnait.study import Findings, Study

logger = logging.getLogger("vnait")

# In the order of their subjects: how encodings work, where they are used, what Vnait adds.
NAMES = (
    "sinusoid",
    "promises",
    "printed",
    "four_terms",
    "rotation_learned",
    "heads",
    "order",
    "codes",
    "three_back",
    "frequencies",
    "extrapolation",
    "layers",
    "cross_attention",
    "alignment",
    "gold_alignment",
    "hierarchy",
    "two_axes",
    "patches",
    "vision",
    "splicing",
    "motifs",
    "contacts",
    "seasonality",
    "forecasting",
    "trajectories",
    "reinforcement",
    "hamming",
    "spectrum",
    "heat",
    "middle",
    "phrases",
)


def load(name: str) -> Study:
    """A study by its name."""
    if name not in NAMES:
        raise InputError(
            f"the study {name!r} is not known.{meant(name, [*SUITES, *NAMES])} Take one of all, {', '.join([*SUITES, *NAMES])}."
        )
    found: Study = import_module(f"vnait.studies.{name}").STUDY
    return found


def listed() -> list[dict[str, Any]]:
    """A row a study: its name, how many claims it judges (of a suite: 0), what it is about."""
    suites = [{"study": name, "claims": 0, "about": f"suite: {run.__doc__}"} for name, run in SUITES.items()]
    short = [{"study": one.name, "claims": len(one.claims), "about": one.subject} for one in map(load, NAMES)]
    return [*short, *suites]


def run(
    names: Sequence[str],
    *,
    quick: bool,
    out: Path,
    jobs: int | None = None,
    watch: Callable[[int, int, str], None] = lambda done, total, note: None,
) -> list[dict[str, Any]]:
    """Short studies by name ("all": every one): a row a claim, with the figure of its study. Records and figures go to `out`."""
    chosen = [load(name) for name in (NAMES if "all" in names else dict.fromkeys(names))]
    _say_missing(chosen)
    found = study.run(
        chosen,
        quick=quick,
        path=out / "records.jsonl",
        jobs=jobs,
        watch=lambda done, total, one: watch(done, total, "" if one is None else f"{one.data['name']}: {one.method}"),
    )
    figures = {one.name: draw(one, found[one.name], out / "figures") for one in chosen}
    return [{**row, "figure": str(figures[row["study"]] or "")} for row in study.rows(chosen, found)]


def draw(one: Study, found: Findings, folder: Path) -> Path | None:
    """The study's figure, drawn from its findings; none where an arm did not run."""
    if any(arm not in found for arm in one.arms):
        return None
    path = folder / f"{one.name}.png"
    with whole_file(path) as draft, matplotlib.rc_context(STYLE):
        one.draw(found).savefig(draft, dpi=110, format="png", metadata={"Software": None})
    return path


def _say_missing(chosen: Sequence[Study]) -> None:
    for one in chosen:
        reasons: dict[str, list[str]] = {}
        for arm, need in one.needs.items():
            if reason := study.missing(need):
                reasons.setdefault(reason, []).append(arm)
        for reason, arms in reasons.items():
            logger.warning("%s: %s can't run: %s", one.name, "; ".join(arms), reason)
