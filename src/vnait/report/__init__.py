"""Records -> one HTML page, for a folder that `vnait compare` or short studies wrote. It can be made again at any time.

`comparing` and `studying` say what there is to say, as sections of a `page`; `figures` draws it.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from vnait import about as abouts
from vnait import page
from vnait import record as records
from vnait.about import About
from vnait.errors import InputError
from vnait.files import whole_file
from vnait.page.sections import Section
from vnait.record import Record
from vnait.report import comparing, studying
from vnait.results import METRIC, Results

__all__ = ["write"]


def write(folder: str | Path) -> Path:
    """Write `folder`/report.html from `folder`/records.jsonl, and give its path. The same folder gives the same page.

    InputError where the folder holds no records of a comparison or of short studies.
    """
    folder = Path(folder)
    source = folder / "records.jsonl"
    if not source.is_file():
        raise InputError(
            f"there is no {source}; give a folder that vnait compare or short studies (vnait study NAME) wrote."
        )
    found = records.read(source)
    if not found:
        raise InputError(f"{source} holds no finished run; let the comparison or study go on first.")
    title, sections = _told(folder, found)
    text = page.html(title, sections)
    with whole_file(folder / "report.html") as draft:
        draft.write_text(text, encoding="utf-8")
    return folder / "report.html"


def _told(folder: Path, found: list[Record]) -> tuple[str, list[Section]]:
    if all("shots" in record.data and METRIC in record.metrics for record in found):
        about = abouts.read(folder)
        results = results_of(found, about)
        name = results.records[0].data.get("name", folder.name) if about is None else about.data["name"]
        return f"Positional methods on {name}", list(comparing.sections(results, about))
    from vnait import studies

    names = dict.fromkeys(str(record.data.get("name")) for record in found)
    known = [studies.load(name) for name in studies.NAMES if name in names]
    known = [one for one in known if studying.chosen(one, found)[1]]  # a suite's task may bear the name of a study
    if not known:
        raise InputError(
            f"{folder} holds records of {', '.join(names)}; a report is of a comparison or of short studies."
        )
    title = f"{len(known)} studies" if len(known) > 4 else f"Studies: {', '.join(one.name for one in known)}"
    return title, list(studying.sections(known, found, folder / "figures"))


def results_of(found: Sequence[Record], about: About | None) -> Results:
    """The last comparison in the records. Without `about.json`: the last record of every cell of the data met last."""
    if about is not None:
        by_key = {record.key: record for record in found}
        missing = [key for key in about.runs if key not in by_key]
        if missing:
            raise InputError(f"{len(missing)} runs of about.json are not in records.jsonl; run the comparison again.")
        kept = [by_key[key] for key in about.runs]
    else:
        last = found[-1].data.get("name")
        cells = {(one.method, one.data["shots"], one.seed): one for one in found if one.data.get("name") == last}
        kept = list(cells.values())
    methods = list(dict.fromkeys(record.method for record in kept))
    default = "vnait" if "vnait" in methods else methods[-1]
    return Results(
        records=kept,
        methods=methods,
        shots=list(dict.fromkeys(record.data["shots"] for record in kept)),
        reference=default if about is None else about.reference,
    )
