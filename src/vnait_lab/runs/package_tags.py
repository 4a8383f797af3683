"""Several labels per text, on a real set: what Debian's packages are for, from their one-line descriptions.

    apt-cache dumpavail > available
    python -m vnait_lab.runs.package_tags available [--seeds 5]

Debian's developers and users tag packages (debtags). A text is a program's description, its labels are the
tags of `use` (converting, viewing ...) and `works-with` (text, audio ...) that at least 100 descriptions
have. Each seed draws 1,000 descriptions for the test; no source package has descriptions on both sides.
Records go to studies/records/package_tags; recorded runs are not repeated.
"""

from __future__ import annotations

from collections import Counter
from pathlib import Path

from vnait.data import Table
from vnait.data.labels import cell_of
from vnait.data.tasks import MULTILABEL
from vnait.shared.errors import InputError
from vnait_lab.runs.packages import programs, run, source_of, tags_of

FACETS = ("use::", "works-with::")
ROWS = 100  # at least, for a label


def tagged(path: Path) -> tuple[Table, list[str]]:
    """The descriptions of programs with a label, each once, and the source package of each."""
    described = {
        text: ({tag for tag in tags_of(fields) if tag.startswith(FACETS)}, source_of(fields))
        for text, fields in programs(path).items()
    }
    count = Counter(tag for tags, _ in described.values() for tag in tags)
    usual = {tag for tag, rows in count.items() if rows >= ROWS}
    rows = [(text, tags & usual, source) for text, (tags, source) in described.items() if tags & usual]
    if not rows:
        raise InputError(f"{path} has no programs with tags; give what apt-cache dumpavail prints.")
    texts, labels, sources = zip(*rows, strict=True)
    cells = [cell_of(sorted(tags)) for tags in labels]
    return Table(texts=[*texts], labels=cells, name="debtags", dropped=0, task=MULTILABEL), [*sources]


def main() -> None:
    run(__doc__, tagged, folder="package_tags", metric="micro_f1")


if __name__ == "__main__":
    main()
