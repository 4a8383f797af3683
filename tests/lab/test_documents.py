"""docs/documents.md: no claim without its row, no row that points to nothing."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from vnait_lab import studies
from vnait_lab.page import documents
from vnait_lab.page.documents import DOCUMENTS, FIELD, OWN, Row, cells_of, counts
from vnait_lab.page.parts import Judged, table
from vnait_lab.study import Verdict

ROOT = Path(__file__).parents[2]
ROWS = [row for rows in DOCUMENTS.values() for row in rows]
# The other sections: their verdicts take half a minute, so that their sources are read from the text.
PAGE = "\n".join(path.read_text(encoding="utf-8") for path in (ROOT / "src/vnait_lab/page").glob("*.py"))


def claimed() -> set[str]:
    of_studies = [claim.source for name in studies.NAMES for claim in studies.load(name).claims]
    return {
        part for source in (*of_studies, *re.findall(r'source="(.+?)"', PAGE)) for part in source.split("; ")
    }


def test_every_source_of_a_claim_is_in_one_row_and_every_row_has_claims() -> None:
    named = [source for row in ROWS for source in row.sources]
    assert len(named) == len(set(named))
    assert {part for part in claimed() if not part.startswith((FIELD, OWN))} == set(named), (
        "give the claim's source to a row in src/vnait_lab/page/documents.toml"
    )


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.section)
def test_a_row_has_evidence_or_a_reason_and_its_tests_exist(row: Row) -> None:
    assert row.sources or row.tests or row.shown or row.lacks
    for test in row.tests:
        file, _, name = test.partition("::")
        assert f"\ndef {name}(" in (ROOT / f"tests/{file}.py").read_text(encoding="utf-8"), test


def test_a_row_shows_its_claims_its_tests_and_what_is_open() -> None:
    claim = Judged(
        "It turns", Verdict("conditional", "1e-14", "k is whole"), "vnait study sinusoid", "a; b", 3
    )
    row = Row("I 1", "A shift turns", sources=("b",), tests=("test_codes::test_bits",), lacks="not trained")
    assert list(cells_of(row, [claim, Judged("Other", claim.verdict, "", "bb")])) == [
        ["It turns", "conditional", "if k is whole: 1e-14", 3, "`vnait study sinusoid`"],
        ["", "tested", "", "", "`pytest tests/test_codes.py::test_bits`"],
        ["", "open", "not trained", "", ""],
    ]
    assert counts([row, Row("I 2", "", shown="a figure"), Row("I 3", "", lacks="a set")]) == [1, 1, 1, 0, 1]
    own = Judged("A law", Verdict("confirmed", "|x| = 1"), "vnait study hamming", f"{OWN}: a law")
    assert documents.page([own]).endswith(
        r"| A law | confirmed | \|x\| = 1 |  | `vnait study hamming` |" + "\n"
    )


def test_a_bar_in_a_cell_begins_no_column() -> None:
    assert table(["|x|"], [["|S - 50|"]]).splitlines()[2] == r"| \|S - 50\| |"
