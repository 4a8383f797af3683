"""A number per text, on a real set: how large Debian's programs are, from their one-line descriptions.

    apt-cache dumpavail > available
    python -m vnait_lab.runs.package_sizes available [--seeds 5]

A text is a program's description, its number the decimal logarithm of the installed size in KiB. Everything
else is as in `package_tags`: each seed draws 1,000 descriptions for the test, and no source package has
descriptions on both sides. Records go to studies/records/package_sizes; recorded runs are not repeated.
"""

from __future__ import annotations

import math
from pathlib import Path

from vnait.data import Table
from vnait.data.tasks import REGRESSION
from vnait.shared.errors import InputError
from vnait_lab.runs.packages import programs, run, source_of

BAGS = ("tfidf-ridge", "average-ridge")  # beside the mean, which ranks nothing


def sized(path: Path) -> tuple[Table, list[str]]:
    """The descriptions of programs with the logarithm of their size, and the source package of each."""
    rows = [
        (text, math.log10(int(fields["Installed-Size"])), source_of(fields))
        for text, fields in programs(path).items()
        if int(fields.get("Installed-Size", 0)) > 0
    ]
    if not rows:
        raise InputError(f"{path} has no programs with a size; give what apt-cache dumpavail prints.")
    texts, sizes, sources = zip(*rows, strict=True)
    labels = [f"{size:.4f}" for size in sizes]
    return Table(texts=[*texts], labels=labels, name="sizes", dropped=0, task=REGRESSION), [*sources]


def main() -> None:
    run(__doc__, sized, folder="package_sizes", metric="spearman")


if __name__ == "__main__":
    main()
