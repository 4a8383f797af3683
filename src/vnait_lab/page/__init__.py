"""Writes studies/README.md, one module per section, and docs/documents.md from the records:
`python -m vnait_lab.page`
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

from vnait.results.record import Record
from vnait_lab import STUDIES
from vnait_lab.page import (
    ablation,
    ablation_few_labels,
    algorithms,
    choices,
    convergence,
    decoders,
    decoding,
    documents,
    elastic,
    factorial,
    few_labels,
    fine_tuning,
    gaps,
    held_out,
    insertions,
    length,
    long_documents,
    longer_articles,
    package_sizes,
    package_tags,
    parameters,
    pretrained_base,
    replies,
    retokenization,
    self_supervision,
    short_studies,
    tagging,
    translations,
)
from vnait_lab.page.parts import Section, records, table
from vnait_lab.runs.factorial import SUITES

# In the page's order: a folder of records, and what writes its section.
SECTIONS: tuple[tuple[str, Callable[[list[Record]], Section]], ...] = (
    ("length", length.section),
    ("elastic", elastic.section),
    ("gaps", gaps.section),
    ("insertions", insertions.section),
    *((f"factorial/{suite}", partial(factorial.section, suite=suite)) for suite in SUITES),
    ("held_out", held_out.section),
    ("algorithmic", algorithms.section),
    ("decoding", decoding.section),
    ("few_labels", few_labels.section),
    ("few_labels_before", few_labels.before),
    ("few_labels_base", pretrained_base.section),
    ("choices", choices.section),
    ("convergence", convergence.section),
    ("self_supervision", self_supervision.section),
    ("fine_tuning", fine_tuning.section),
    ("tagging", tagging.section),
    ("translations", translations.section),
    ("package_tags", package_tags.section),
    ("package_sizes", package_sizes.section),
    ("longer_articles", longer_articles.section),
    ("retokenization", retokenization.section),
    ("replies", replies.section),
    ("long_documents", long_documents.section),
    ("decoder", decoders.section),
    ("few_labels_before", parameters.section),
    ("ablation", ablation.section),
    ("ablation_few_labels", ablation_few_labels.section),
    ("claims", short_studies.section),
)


def pages() -> dict[Path, str]:
    """The text of every page; a section without records is left out."""
    written = [section(found) for folder, section in SECTIONS if (found := records(folder))]
    claims = [claim for part in written for claim in (*part.claims, *part.inside)]
    return {STUDIES / "README.md": studies(written), Path("docs/documents.md"): documents.page(claims)}


def studies(written: Sequence[Section]) -> str:
    rows = [
        [one.statement, one.verdict.word, one.found, f"`{one.command}`"]
        for part in written
        for one in part.claims
    ]
    text = "\n\n".join(section.text for section in written)
    return f"""# Studies

Written by `python -m vnait_lab.page` from the records in `studies/records`; dated findings are in
[findings](findings/README.md). The claims by document and section: [documents](../docs/documents.md).

{table(["claim", "verdict", "what was found", "command"], rows)}

{text}
"""
