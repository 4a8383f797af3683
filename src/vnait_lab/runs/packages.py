"""Debian's programs by their one-line descriptions, and comparisons on them: what `package_tags` and
`package_sizes` share.

Each seed draws 1,000 descriptions for the test; no source package has descriptions on both sides.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import product
from pathlib import Path

import numpy as np

from vnait.comparison.plan import Plan
from vnait.data import Table
from vnait.results.record import Record
from vnait.shared.errors import InputError
from vnait.train.run import Run
from vnait_lab.records import baselines_of, by_method, path_of
from vnait_lab.runs import ahead, parser, plan_of_words, print_verdict, run_plans
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
    packages: dict[str, dict[str, str]] = {}
    with path.open(encoding="utf-8") as lines:
        for fields in paragraphs(lines):
            if (text := fields.get("Description")) and "role::program" in tags_of(fields):
                packages.setdefault(text, fields)
    return packages


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
    return plan_of_words(*parted(table, sources, seed), METHODS_RUN, shots=shots, seeds=[seed], run=RUN)


def verdict(records: Sequence[Record], rows: int, others: Iterable[str], metric: str = "micro_f1") -> Verdict:
    """The claim: `vnait` is ahead of all others."""
    return ahead(by_method(records, metric, ("vnait", *others), shots=rows), "vnait")


def run(
    doc: str | None,
    read: Callable[[Path], tuple[Table, list[str]]],
    *,
    folder: str,
    metric: str,
) -> None:
    """The command of a run on descriptions of packages: every seed's comparison, then the verdicts against
    the bags of words and other positions.

    read    what apt-cache dumpavail prints, as a file -> descriptions, and the source package of each
    """
    command = parser(doc, seeds=5, rows=LEARNED)
    command.add_argument("packages", type=Path, help="what apt-cache dumpavail prints, as a file")
    options = command.parse_args()
    try:
        table, sources = read(options.packages)
    except (OSError, UnicodeDecodeError, InputError) as error:
        command.error(str(error))
    print(f"{len(table)} descriptions")
    plans = (plan_of(table, sources, seed, options.rows) for seed in range(options.seeds))
    records = run_plans(plans, path_of(folder), options.jobs)
    for rows, others in product(options.rows, (baselines_of(records), POSITIONS)):
        print_verdict(f"{rows} descriptions", verdict(records, rows, others, metric))
