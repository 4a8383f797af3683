"""Writes studies/README.md and docs/documents.md from the records: `python -m vnait_lab.page`.

suites.py, factorial.py         generated tasks
language.py                     language models
few_labels.py, trainings.py     few labels
texts.py                        texts that change, tags, numbers, pairs
short_studies.py, documents.py  claims, and the documents that make them
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

from vnait.results.record import Record
from vnait_lab import STUDIES
from vnait_lab.page import documents, factorial, few_labels, language, short_studies, suites, texts, trainings
from vnait_lab.page.parts import Section, table
from vnait_lab.records import read
from vnait_lab.runs.factorial import SUITES

# In the page's order: a folder of records, and what writes its section.
SECTIONS: tuple[tuple[str, Callable[[list[Record]], Section]], ...] = (
    ("length", suites.of_length),
    ("rotation", suites.of_rotation),
    ("elastic", suites.of_elastic),
    ("gaps", suites.of_gaps),
    ("insertions", texts.of_insertions),
    *((f"factorial/{suite}", partial(factorial.section, suite=suite)) for suite in SUITES),
    ("held_out", suites.of_held_out),
    ("algorithmic", suites.of_algorithms),
    ("decoding", suites.of_decoding),
    ("decoding_neighbours", suites.of_decoding_with_neighbours),
    *(
        (f"nine_sets/{name}", partial(few_labels.as_compared, unlabelled=name))
        for name in few_labels.SITUATIONS
    ),
    ("few_labels_before", few_labels.before),
    ("few_labels_base", few_labels.beside_pretrained),
    ("choices", trainings.of_choices),
    ("convergence", trainings.of_convergence),
    ("self_supervision", trainings.of_self_supervision),
    ("fine_tuning", trainings.of_fine_tuning),
    ("tagging", texts.of_tagging),
    ("translations", texts.of_translations),
    ("package_tags", texts.of_package_tags),
    ("package_sizes", texts.of_package_sizes),
    ("longer_articles", texts.of_longer_articles),
    ("retokenization", texts.of_retokenization),
    ("replies", texts.of_replies),
    ("long_documents", texts.of_long_documents),
    ("decoders", language.of_decoders),
    ("masked", language.of_masked),
    ("few_labels_before", few_labels.smaller_parts),
    ("ablation", factorial.of_ablation),
    ("ablation_few_labels", factorial.of_ablation_on_few_labels),
    ("claims", short_studies.section),
)


def pages() -> dict[Path, str]:
    """The text of every page; a section without records is left out."""
    written = [section(records) for folder, section in SECTIONS if (records := read(folder))]
    claims = [claim for part in written for claim in (*part.claims, *part.inside)]
    return {STUDIES / "README.md": studies(written), Path("docs/documents.md"): documents.page(claims)}


def studies(written: Sequence[Section]) -> str:
    rows = [
        [claim.statement, claim.verdict.word, claim.summary, f"`{claim.command}`"]
        for part in written
        for claim in part.claims
    ]
    text = "\n\n".join(section.text for section in written)
    return f"""# Studies

Written by `python -m vnait_lab.page` from the records in `studies/records`; dated findings are in
[findings](findings/README.md). The claims by document and section: [documents](../docs/documents.md).

{table(["claim", "verdict", "what was found", "command"], rows)}

{text}
"""
