"""Records -> one HTML page, for a folder that `vnait compare` or short studies wrote.

`comparison` makes the sections of a comparison, a plugin those of its own records.
"""

from collections.abc import Sequence
from pathlib import Path

from vnait.positions.plugins import call_plugins
from vnait.results import page
from vnait.results.about import About
from vnait.results.metrics import metric_of
from vnait.results.page.sections import Section
from vnait.results.record import Record, read
from vnait.results.report import comparison
from vnait.results.results import Results
from vnait.shared.errors import InputError
from vnait.shared.files import home

__all__ = ["write"]


def write(folder: str | Path) -> Path:
    """Write `folder`/report.html from `folder`/records.jsonl, and return its path. The same records give the
    same page.

    InputError if the folder has no records of a comparison or of short studies.
    """
    folder = Path(home(folder))
    source = folder / "records.jsonl"
    if not source.is_file():
        raise InputError(
            f"there is no {source}; give a folder that vnait compare or short studies (vnait study NAME) "
            "wrote."
        )
    records = read(source)
    if not records:
        raise InputError(f"{source} holds no finished run; let the comparison or study go on first.")
    title, sections = _content(folder, records)
    path = folder / "report.html"
    page.write(path, title, sections)
    return path


def _content(folder: Path, records: list[Record]) -> tuple[str, list[Section]]:
    """The title and the sections, of a comparison or from the plugin that wrote the records."""
    if all("shots" in record.data and metric_of(record.metrics) for record in records):
        about = About.read(folder)
        results = results_of(records, about)
        name = results.records[0].data.get("name", folder.name) if about is None else about.data["name"]
        return f"Positional methods on {name}", list(comparison.sections(results, about))
    for content in filter(None, call_plugins("report", folder, records)):
        title, sections = content
        return title, list(sections)
    names = dict.fromkeys(str(record.data.get("name")) for record in records)
    raise InputError(
        f"{folder} holds records of {', '.join(names)}; a report is of a comparison or of short studies."
    )


def results_of(records: Sequence[Record], about: About | None) -> Results:
    """The last comparison in the records. Without `about.json`: the last record of every run, of the data
    set that comes last.
    """
    if about is not None:
        by_key = {record.key: record for record in records}
        missing = [key for key in about.runs if key not in by_key]
        if missing:
            raise InputError(
                f"{len(missing)} runs of about.json are not in records.jsonl; run the comparison again."
            )
        chosen = [by_key[key] for key in about.runs]
    else:
        last = records[-1].data.get("name")
        of_last = [record for record in records if record.data.get("name") == last]
        by_cell = {(record.method, record.data["shots"], record.seed): record for record in of_last}
        chosen = list(by_cell.values())
    methods = list(dict.fromkeys(record.method for record in chosen))
    trained = [record.method for record in chosen if "steps" in record.run]  # and no baseline
    default = "vnait" if "vnait" in methods else (trained or methods)[-1]
    return Results(
        records=chosen,
        methods=methods,
        shots=list(dict.fromkeys(record.data["shots"] for record in chosen)),
        reference=default if about is None else about.reference,
    )
