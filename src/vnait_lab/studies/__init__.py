"""The short studies, and how `vnait study` finds and runs them.

Each file is one study of claims of the source documents or of the field: its docstring explains the subject,
and `STUDY` has its variants, its rules and its figure. `parts` has what several of them share. The four long
studies (length, algorithmic, decoding, few-labels), which compare all methods and take hours, are in
`vnait_lab.suites`.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any

import matplotlib

from vnait.shared.errors import InputError, did_you_mean
from vnait.shared.files import atomic_file
from vnait_lab import running
from vnait_lab.runners import SUITES
from vnait_lab.studies.figures import STYLE
from vnait_lab.study import Findings, Study, missing

logger = logging.getLogger("vnait")

# By subject: properties of encodings, their applications, and what Vnait adds.
NAMES = (
    "sinusoid",
    "promises",
    "printed",
    "four_terms",
    "rotation_learned",
    "heads",
    "bert_heads",
    "agreement",
    "order",
    "codes",
    "three_back",
    "frequencies",
    "extrapolation",
    "layers",
    "cross_attention",
    "alignment",
    "gold_alignment",
    "translation",
    "hierarchy",
    "two_axes",
    "patches",
    "vision",
    "finer_grids",
    "splicing",
    "introns",
    "motifs",
    "contacts",
    "proteins",
    "seasonality",
    "forecasting",
    "irregular",
    "horizons",
    "trajectories",
    "reinforcement",
    "decision",
    "hamming",
    "hamming_learned",
    "spectrum",
    "heat",
    "graph_classes",
    "middle",
    "bounds",
    "phrases",
    "trees",
    "key_tokens",
)


def load(name: str) -> Study:
    """Return the study of this name."""
    if name not in NAMES:
        raise InputError(
            f"unknown study {name!r}.{did_you_mean(name, [*SUITES, *NAMES])} Choose from all, "
            f"{', '.join([*SUITES, *NAMES])}."
        )
    loaded: Study = import_module(f"vnait_lab.studies.{name}").STUDY
    return loaded


def listed() -> list[dict[str, Any]]:
    """One row per study: its name, the number of its claims (0 for a suite), its subject."""
    suites = [{"study": name, "claims": 0, "about": f"suite: {run.__doc__}"} for name, run in SUITES.items()]
    short = [
        {"study": loaded.name, "claims": len(loaded.claims), "about": loaded.subject}
        for loaded in map(load, NAMES)
    ]
    return [*short, *suites]


def run(
    names: Sequence[str],
    *,
    quick: bool,
    out: Path,
    jobs: int | None = None,
    backend: str = "local",
    callback: Callable[[int, int, str], None] = lambda done, total, note: None,
) -> list[dict[str, Any]]:
    """Run short studies by name ("all" for every one): one row per claim, with the figure of its study.

    Records and figures are written to `out`.
    """
    chosen = [load(name) for name in (NAMES if "all" in names else dict.fromkeys(names))]
    _check_needs(chosen, recorded := out / "records.jsonl")
    findings = running.run(
        chosen,
        quick=quick,
        path=recorded,
        jobs=jobs,
        backend=backend,
        callback=lambda done, total, record: callback(
            done, total, "" if record is None else f"{record.data['name']}: {record.method}"
        ),
    )
    figures = {drawn.name: draw(drawn, findings[drawn.name], out / "figures") for drawn in chosen}
    return [{**row, "figure": str(figures[row["study"]] or "")} for row in running.rows(chosen, findings)]


def draw(drawn: Study, findings: Findings, folder: Path) -> Path | None:
    """Draw the study's figure from its findings; None if a variant did not run."""
    if any(variant not in findings for variant in drawn.variants):
        return None
    path = folder / f"{drawn.name}.png"
    with atomic_file(path) as draft, matplotlib.rc_context(STYLE):
        drawn.draw(findings).savefig(draft, dpi=110, format="png", metadata={"Software": None})
    return path


def _check_needs(chosen: Sequence[Study], recorded: Path) -> None:
    """Warn of variants that can't run. InputError if none can, and none is recorded."""
    sentences, runs = [], recorded.is_file()
    for checked in chosen:
        lacks = {variant: missing(checked.needs.get(variant)) for variant in checked.variants}
        runs |= None in lacks.values()
        for reason in dict.fromkeys(filter(None, lacks.values())):
            variants = [variant for variant in lacks if lacks[variant] == reason]
            lacking = "" if len(variants) == len(lacks) else f": {'; '.join(variants)}"
            sentences.append(f"{checked.name}{lacking} cannot run: {reason}")
    if not runs:
        raise InputError("; ".join(sentences) + ".")
    for sentence in sentences:
        logger.warning("%s.", sentence)
