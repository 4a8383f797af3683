"""Studies run: each variant with each seed on one core, and what the judges make of the records."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from itertools import groupby
from pathlib import Path
from typing import Any

from vnait.comparison.runs import Callback, run_all
from vnait.results import record as records
from vnait.results.record import Record
from vnait.shared.keys import key_of
from vnait.shared.processes import one_thread
from vnait.shared.randomness import preserved_generators
from vnait_lab.study import Budget, Findings, Study, missing


def run(
    studies: Sequence[Study],
    *,
    quick: bool,
    path: str | Path,
    jobs: int | None = None,
    backend: str = "local",
    callback: Callback = lambda done, total, record: None,
) -> dict[str, Findings]:
    """Run every variant of every study with every seed, one core per run; what is in `path` does not run
    again. Returns the findings per study.
    """
    from joblib import delayed

    done = {record.key for record in records.read(path)} if Path(path).is_file() else set()
    runs = {
        key(study, variant, seed, budget): (study, variant, seed, budget)
        for study in studies
        for budget in [study.quick if quick else study.full]
        for variant in study.variants
        for seed in range(budget.seeds)
        if key(study, variant, seed, budget) in done or missing(study.needs.get(variant)) is None
    }

    recorded = run_all(
        path,
        runs,
        lambda left: (delayed(record_of)(*run) for run in left),
        jobs=jobs,
        backend=backend,
        callback=callback,
    )
    groups = groupby(recorded, key=lambda record: str(record.data["name"]))
    return {study.name: Findings({}) for study in studies} | {
        name: Findings.of(list(group)) for name, group in groups
    }


def key(study: Study, variant: str, seed: int, budget: Budget) -> str:
    """The fingerprint of everything that decides a run; the number of seeds does not."""
    described = study.variants[variant]
    return key_of("study", study.name, variant, described, seed, budget.steps, budget.samples)


def record_of(study: Study, variant: str, seed: int, budget: Budget) -> Record:
    """Run one variant with one seed, on one core."""
    started = time.perf_counter()
    with one_thread(), preserved_generators():
        metrics = study.run(variant, seed, budget)
    return Record.now(
        key=key(study, variant, seed, budget),
        method=variant,
        seed=seed,
        run={"steps": budget.steps, "samples": budget.samples},
        data={"name": study.name},
        metrics=metrics,
        parameters=0,
        seconds=time.perf_counter() - started,
    )


def rows(studies: Sequence[Study], findings: Mapping[str, Findings]) -> list[dict[str, Any]]:
    """One row per claim."""
    return [
        {
            "study": study.name,
            "claim": claim.statement,
            "source": claim.source,
            "verdict": verdict.word,
            "condition": verdict.condition,
            "found": verdict.summary,
        }
        for study in studies
        for claim in study.claims
        for verdict in [study.verdict(claim, findings[study.name])]
    ]
