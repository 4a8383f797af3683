"""Debian's programs by their one-line descriptions, and comparisons on them: what `package_tags` and
`package_sizes` share.

Each seed draws 1,000 descriptions for the test; no source package has descriptions on both sides.
"""

from __future__ import annotations

import argparse
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from itertools import product
from pathlib import Path

import numpy as np

from vnait.comparison.compare import run_plan
from vnait.comparison.plan import Plan
from vnait.data import Table
from vnait.results.record import Record
from vnait.train.run import Run
from vnait_lab.runs import ahead, by_seed, numbers, parser, show_progress
from vnait_lab.study import Verdict

POSITIONS = ("none", "sinusoidal")
METHODS_RUN = (*POSITIONS, "vnait")
LEARNED = (200, 1000)  # descriptions
TEST = 1000  # descriptions
RUN = Run(validation=0, tune_vectors=True)


def paragraphs(lines: Iterable[str]) -> Iterator[dict[str, str]]:
    """The fields of each package; a line that starts with a space continues the field above."""
    fields: dict[str, str] = {}
    name = ""
    for line in lines:
        if not line.strip():
            if fields:
                yield fields
            fields = {}
        elif line[0] == " ":
            fields[name] = fields.get(name, "") + line.rstrip()
        else:
            name, _, value = line.partition(":")
            fields[name] = value.strip()
    if fields:
        yield fields


def programs(path: Path) -> dict[str, dict[str, str]]:
    """The fields of each program by its description; of equal descriptions the first."""
    found: dict[str, dict[str, str]] = {}
    with path.open(encoding="utf-8") as lines:
        for fields in paragraphs(lines):
            if (text := fields.get("Description")) and "role::program" in tags_of(fields):
                found.setdefault(text, fields)
    return found


def tags_of(fields: dict[str, str]) -> set[str]:
    return {tag.strip() for tag in fields.get("Tag", "").split(",")}


def source_of(fields: dict[str, str]) -> str:
    return fields.get("Source", fields["Package"]).split()[0]


def parted(table: Table, sources: Sequence[str], seed: int) -> tuple[Table, Table]:
    """The rows to draw from, and at least `TEST` rows of other source packages."""
    names = np.random.default_rng(seed).permutation(sorted({*sources})).tolist()
    rows = Counter(sources)
    held: set[str] = set()
    while sum(rows[name] for name in held) < TEST:
        held.add(names[len(held)])
    return (
        table.select(row for row, name in enumerate(sources) if name not in held),
        table.select(row for row, name in enumerate(sources) if name in held),
    )


def plan_of(table: Table, sources: Sequence[str], seed: int, shots: Sequence[int]) -> Plan:
    """The comparison of one seed."""
    learn, test = parted(table, sources, seed)
    return Plan(
        table=learn,
        test=test,
        methods=METHODS_RUN,
        shots=tuple(shots),
        seeds=(seed,),
        run=RUN,
        vectors=None,
        tokenization="words",
        chooses=False,
    )


def verdict(found: Sequence[Record], rows: int, others: Iterable[str], metric: str = "micro_f1") -> Verdict:
    """The claim: `vnait` is ahead of all others."""
    return ahead({one: by_seed(found, one, metric, shots=rows) for one in ("vnait", *others)}, "vnait")


def run(
    table: Table,
    sources: Sequence[str],
    options: argparse.Namespace,
    path: Path,
    bags: Sequence[str],
    metric: str,
) -> None:
    """Run every seed's comparison, and print the verdicts against the bags of words and other positions."""
    found: list[Record] = []
    for seed in range(options.seeds):
        plan = plan_of(table, sources, seed, options.rows)
        found += run_plan(plan, path, jobs=options.jobs, callback=show_progress)
    for rows, others in product(options.rows, (bags, POSITIONS)):
        judged = verdict(found, rows, others, metric)
        print(f"{rows} descriptions: {judged.word}: {judged.found}")


def packages_parser(doc: str | None) -> argparse.ArgumentParser:
    """The command line of a run on descriptions of packages."""
    command = parser(doc, seeds=5)
    command.add_argument("packages", type=Path, help="what apt-cache dumpavail prints, as a file")
    command.add_argument(
        "--rows",
        type=numbers,
        default=",".join(map(str, LEARNED)),
        help="descriptions to learn [%(default)s]",
    )
    return command
