"""Results as text on standard output: tables and bars that also read well without colour, at 80 columns, and in a file."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from itertools import groupby
from operator import itemgetter
from textwrap import fill, indent
from typing import TYPE_CHECKING, Any

from rich.cells import cell_len
from rich.console import Console
from rich.table import Table as Grid

if TYPE_CHECKING:
    from vnait.comparison import Comparison
    from vnait.explanation import Explanation
    from vnait.laws import Row
    from vnait.record import Record
    from vnait.text import Table

BAR = 24  # cells of the longest bar
HEADING = 11  # cells of the widest heading of a column, where its name has a place to break


def show_comparison(comparison: Comparison, data: Table) -> None:
    """A table for each number of shots, then what it allows one to say."""
    classes = len(set(data.labels or []))
    print(f"{data.name}: {len(data)} rows, {classes} classes, {len(comparison.plan.seeds)} seeds")
    print(f"accuracy of always answering the most frequent class: {100 * comparison.plan.most_frequent():.1f} %")
    for shots in comparison.plan.shots:
        print()
        _print(_comparison_grid(comparison, shots))
    print()
    for sentence in comparison.sentences():
        _print(sentence)
    _print(
        f"Intervals: 95 % over seeds, by Student's t; minus {comparison.reference}: in points, paired by seed; none is corrected for "
        "several comparisons. alone: without the linear part that each Transformer has beside it; seconds: of training; ms: per text."
    )
    print()
    for sentence in comparison.advice():
        _print(sentence)


def _comparison_grid(comparison: Comparison, shots: int | str) -> Grid:
    where = "all labels" if shots == "all" else f"{shots} labels per class"
    grid = _grid(where, "accuracy, %", f"minus {comparison.reference}", "alone", "seconds", "ms", left=1)
    paired = {row["method"]: row for row in comparison.paired if row["shots"] == shots}
    rows = [row for row in comparison.rows if row["shots"] == shots]
    for row in sorted(rows, key=lambda row: -row["mean"]):
        other = paired.get(row["method"])
        grid.add_row(
            row["method"],
            _with_bounds(row["mean"], row["ci_low"], row["ci_high"], "{:.1f}"),
            "" if other is None else _with_bounds(other["difference"], other["ci_low"], other["ci_high"], "{:+.1f}"),
            "" if row["alone"] is None else f"{100 * row['alone']:.1f}",
            f"{row['seconds']:.1f}",
            "" if row["ms_per_text"] is None else f"{row['ms_per_text']:.2f}",
        )
    return grid


def _with_bounds(mean: float, low: float | None, high: float | None, form: str) -> str:
    """In points, with the interval where there is one."""
    middle = form.format(100 * mean)
    return middle if low is None or high is None else f"{middle} [{form.format(100 * low)}, {form.format(100 * high)}]"


def show_scores(record: Record) -> None:
    """One training's scores."""
    for name, value in sorted(record.metrics.items()):
        if not isinstance(value, list):
            print(f"{name:22} {value:.3f}")
    if "unknown_share" in record.data:
        print(f"{'unknown words':22} {record.data['unknown_share']:.3f}")
    print(f"{'parameters':22} {record.parameters:,}\n{'seconds':22} {record.seconds:.1f}")


def show_explanation(explanation: Explanation) -> None:
    """Each token with its coordinate, rho, what it says, and its gap as a bar; then the active method, the heads and the scores."""
    from vnait.explanation.letters import shown
    from vnait.explanation.output import told

    print(f"{explanation.label}  (probability {explanation.probability:.3f})")
    print(fill(told(explanation), Console().width), end="\n\n")
    tokens = [shown(token) for token in explanation.tokens]
    width = max(cell_len(token) for token in [*tokens, "token"])
    rho = explanation.similarity
    head = f"{'token':{width}}  coordinate     gap" + ("" if rho is None else "    rho") + "   says"
    print(head)
    mark = "" if all(explanation.known) else "  (unknown word)"
    longest = max(min(BAR, Console().width - len(head) - 2 - len(mark)), 1)
    unit = max([gap for gap in explanation.gaps if gap > 0], default=1.0)
    for number, token in enumerate(tokens):
        place, gap = explanation.coordinates[number], explanation.gaps[number]
        cosine = "" if rho is None else f"  {rho[number]:5.2f}"
        bar = "#" * round(longest * max(gap, 0.0) / unit) + ("" if explanation.known[number] else mark)
        says = f"  {explanation.says[number]:+5.2f}"
        print(f"{token}{' ' * (width - cell_len(token))}  {place:10.2f}  {gap:6.2f}{cosine}{says}  {bar}".rstrip())
    print()
    _named("method", f"{explanation.method}: {explanation.formula}")
    for words in explanation.enters:
        _named("enters", words)
    print(f"parameters  {explanation.parameters:,}")
    for number, (first, last, relation) in enumerate(explanation.phrases):
        inside = sum(explanation.gaps[first + 1 : last + 1]) / (last - first)
        words = f"{relation}, {tokens[first]} ... {tokens[last]}: gap before it {explanation.gaps[first]:.2f}"
        _named("" if number else "phrases", f"{words}, mean gap inside {inside:.2f}")
    for layer, kinds in enumerate(explanation.heads, 1):
        _named("heads" if layer == 1 else "", f"layer {layer}: {', '.join(map(str, kinds))}")
    means = {term: 100 * sum(found) / len(found) for term, found in explanation.shares.items() if any(found)}
    parts = ", ".join(f"{term} {mean:.0f}" for term, mean in sorted(means.items(), key=lambda item: -item[1]))
    _named("scores", f"of layer 1, shares in %, mean of its heads: {parts or 'none, all keys are alike'}")


def show_terms(facts: dict[str, Any]) -> None:
    """A baseline's answer: its terms and what each adds to the label's logit, the largest first."""
    print(f"{facts['label']}  (probability {facts['probability']:.3f}, by {facts['method']})\n")
    grid = _grid("term", "adds to the logit", left=1)
    for term, added in facts["terms"].items():
        grid.add_row(term, f"{added:+.2f}")
    grid.add_row("(bias)", f"{facts['bias']:+.2f}")
    _print(grid)


def _named(name: str, words: str) -> None:
    print(fill(f"{name:12}{words}", Console().width, subsequent_indent=" " * 12))


def show_catalogue(rows: Sequence[dict[str, Any]], *, dim: int, max_length: int) -> None:
    """The methods; formula and source on lines of their own, so that nothing is cut at 80 columns."""
    print(f"{'method':14} {'parameters':>10}  learned  causal   (width {dim}, longest text {max_length})")
    for row in rows:
        learned, causal = ("yes" if row[name] else "no" for name in ("learned", "causal"))
        print(f"\n{row['name']:14} {row['parameters']:>10,}  {learned:7}  {causal}")
        for line in (row["formula"], row["source"]):
            print(indent(fill(line, Console().width - 4), "    "))


def show_sizes(rows: Sequence[dict[str, Any]], *, dim: int) -> None:
    """Parameters beside a table of 512 rows."""
    grid = _grid(f"width {dim}", "parameters", "beside 512 rows", left=1)
    for row in rows:
        grid.add_row(row["name"], f"{row['parameters']:,}", _beside(row["against_table_512"]))
    _print(grid)


def show_conformance(rows: Sequence[Row]) -> None:
    """Laws by implementations in blocks that fit the width; then each broken law with its smallest input, and what was not asked."""
    laws = list(dict.fromkeys(row.law for row in rows))
    marks = {(row.implementation, row.law): {True: "yes", False: "NO", None: "-"}[row.passed] for row in rows}
    for names in _blocks(list(dict.fromkeys(row.implementation for row in rows)), max(map(len, laws))):
        grid = _grid("law", *("\n".join(_folded(name)) for name in names), left=1)
        for law in laws:
            grid.add_row(law, *(marks[name, law] for name in names))
        _print(grid)
        print()
    broken = [row for row in rows if row.passed is False]
    for row in broken:
        print(f"{row.implementation}: {row.law}: {row.detail}")
    for reason, some in _reasons(rows).items():
        print(f"-  {', '.join(dict.fromkeys(row.law for row in some))}: {reason} ({_listed(some)})")
    kept = sum(row.passed is True for row in rows)
    print(f"\n{kept} kept, {len(broken)} broken, {len(rows) - kept - len(broken)} not asked (-)")


def show_lengths(rows: Sequence[dict[str, Any]], lengths: Sequence[int]) -> None:
    """Accuracy of methods on tasks, a table a length; in brackets what was not learned at the training length."""
    cells = {(row["task"], row["method"]): row for row in rows}
    tasks = list(dict.fromkeys(row["task"] for row in rows))
    names = list(dict.fromkeys(row["method"] for row in rows))
    for length in lengths:
        print(f"{length} tokens")
        for block in _blocks(names, max(map(len, [*tasks, "mean"]))):
            grid = _grid("task", *("\n".join(_folded(name)) for name in block), left=1)
            found = {name: [cells[task, name][f"accuracy_{length}"] for task in tasks] for name in block}
            for number, task in enumerate(tasks):
                forms = ("{:.1f}" if cells[task, name]["learned"] else "({:.1f})" for name in block)
                values = (100 * found[name][number] for name in block)
                grid.add_row(task, *(form.format(value) for form, value in zip(forms, values, strict=True)))
            grid.add_row("mean", *(f"{100 * sum(found[name]) / len(tasks):.1f}" for name in block))
            _print(grid)
            print()
    print("Accuracy in %. In brackets: below 90 at the training length, so the task was not learned.")


def show_shares(rows: Sequence[dict[str, Any]], *, name: str) -> None:
    """Rows of names, counts, and shares in %, under their own headings; what comes under `name` stands left."""
    heads = list(dict.fromkeys(head for row in rows for head in row))
    heads.sort(key=lambda head: head != name)
    grid = _grid(*("\n".join(_folded(head.replace("_", "-"))) for head in heads), left=2)
    for row in rows:
        values = (row.get(head, "") for head in heads)
        grid.add_row(*(f"{100 * value:.1f}" if isinstance(value, float) else str(value) for value in values))
    _print(grid)


def show_studies(rows: Sequence[dict[str, Any]]) -> None:
    """A line a study: its name and what it is about."""
    grid = _grid("study", "claims", "about", left=3)
    for row in rows:
        grid.add_row(row["study"], str(row["claims"] or ""), row["about"])
    _print(grid)


def show_verdicts(rows: Sequence[dict[str, Any]]) -> None:
    """Each study's claims: the verdict, the sentence it is about, what was found."""
    for name, own in groupby(rows, key=itemgetter("study")):
        print(f"\n{name}")
        grid = _grid("", "", left=2)
        grid.show_header = False
        for row in own:
            condition = f"holds if {row['condition']}: " if row["condition"] else ""
            grid.add_row(f"  {row['verdict']}", f"{row['claim']}\n{condition}{row['found']}")
        _print(grid)
    words = Counter(row["verdict"] for row in rows)
    print(f"\n{len(rows)} claims: " + ", ".join(f"{count} {word}" for word, count in words.most_common()))


def _reasons(rows: Sequence[Row]) -> dict[str, list[Row]]:
    """What was not asked, by reason."""
    found: dict[str, list[Row]] = {}
    for row in rows:
        if row.passed is None:
            found.setdefault(row.detail, []).append(row)
    return found


def _listed(rows: Sequence[Row]) -> str:
    names = list(dict.fromkeys(row.implementation for row in rows))
    return ", ".join(names) if len(names) <= 3 else f"{len(names)} implementations"


def _blocks(names: Sequence[str], first: int) -> list[list[str]]:
    """Columns that fit side by side beside a first one of this width."""
    blocks: list[list[str]] = [[]]
    room = Console().width - first - 2
    for name in names:
        width = max(map(len, _folded(name))) + 2
        if blocks[-1] and width > room:
            blocks.append([])
            room = Console().width - first - 2
        blocks[-1].append(name)
        room -= width
    return blocks


def _folded(name: str) -> list[str]:
    """A long name in lines, broken after a hyphen or a colon."""
    lines = [""]
    for part in re.findall(r"[^-:]+[-:]?", name):
        if lines[-1] and len(lines[-1]) + len(part) > HEADING:
            lines.append("")
        lines[-1] += part
    return lines


def _beside(ratio: float) -> str:
    if ratio == 1:
        return "the same"
    return f"{ratio:.1f} times more" if ratio > 1 else f"{1 / ratio:.1f} times fewer"


def _grid(*titles: str, left: int) -> Grid:
    grid = Grid(box=None, pad_edge=False, padding=(0, 2, 0, 0))
    for number, title in enumerate(titles):
        grid.add_column(title, justify="left" if number < left else "right", no_wrap=number == 0)
    return grid


def _print(what: Any) -> None:
    Console(highlight=False, soft_wrap=False, markup=False).print(what)
