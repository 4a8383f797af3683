"""Results as text on standard output, for 80 columns, without colour."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from textwrap import fill, indent
from typing import TYPE_CHECKING, Any

from rich.cells import cell_len
from rich.console import Console
from rich.table import Table as Grid

from vnait.cli.output import echo
from vnait.shared.errors import plural

if TYPE_CHECKING:
    from vnait.comparison.compare import Comparison
    from vnait.positions.conformance_suite import Row
    from vnait.results.explanation import Explanation
    from vnait.results.record import Record

BAR = 24  # cells of the longest bar
TERMS = 20  # of a simple model, shown one by one
UNEVEN = 1.5  # times its even share: from here the accuracy of a frequent class can hide the rare ones
HEADING = 11  # cells per line of a heading, if its name can be broken


def show_comparison(comparison: Comparison) -> None:
    """A table per number of shots, then the conclusions and the advice."""
    from vnait.results.metrics import ACCURACY  # scipy, which other commands do not wait for

    data, metric, chance = comparison.plan.table, comparison.results.metric, comparison.chance_level
    kind = {"classification": "classes", "tagging": "tags", "multilabel": "labels"}.get(data.task)
    kinds = f"{len(set(data.single_labels))} {kind}" if kind else "numbers as labels"
    written = (
        f"{100 * chance:.1f} %" if metric.better > 0 else f"{metric.form.format(chance)}, lower is better"
    )
    seeds = len(comparison.plan.seeds)
    echo(f"{data.name}: {len(data)} rows, {kinds}, {plural(seeds, 'seed')}")
    echo(f"{metric.title} of always {metric.chance}: {written}")
    for shots in comparison.plan.shots:
        echo()
        if words := comparison.results.words_of(shots):
            print_wrapped(words)
        print_wrapped(_comparison_grid(comparison, shots))
        if metric is not ACCURACY or chance > UNEVEN / len(set(data.single_labels)):
            echo()
            print_wrapped(_others_grid(comparison, shots))
    echo()
    for sentence in comparison.sentences():
        print_wrapped(sentence)
    one_draw = comparison.plan.test is None and len(comparison.results.seeds) == 1
    rows = "" if one_draw else f" {comparison.results.of_rows}"
    print_wrapped(
        f"Intervals: 95 % over seeds, by Student's t; minus {comparison.reference}: "
        f"{'in points, ' * (metric.times > 1)}paired by seed; none is corrected for several comparisons. "
        f"{'alone: without the linear part that each Transformer has beside it; ' * _are_alone(comparison)}"
        f"s: seconds of training; ms: milliseconds per text.{rows}"
    )
    echo()
    for sentence in comparison.advice():
        print_wrapped(sentence)


def _comparison_grid(comparison: Comparison, shots: int | str) -> Grid:
    from vnait.results.results import interval_of  # scipy, which other commands do not wait for

    metric = comparison.results.metric
    where = comparison.results.inside(shots).split(" ", 1)[1]
    title, form = (f"{metric.title}, %", "{:.1f}") if metric.times > 1 else (metric.title, "{:.3g}")
    signed, of = "{:+" + metric.points + "}", metric.times
    alone = ["alone"] * _are_alone(comparison)
    grid = new_grid(where, title, f"minus {comparison.reference}", *alone, "s", "ms", left=1)
    paired = {row["method"]: row for row in comparison.paired if row["shots"] == shots}
    for row in comparison.results.ranked(shots):
        difference = paired.get(row["method"])
        grid.add_row(
            row["method"],
            interval_of(row).times(of).written(form),
            "" if difference is None else interval_of(difference).times(of).written(signed),
            *["" if row["alone"] is None else form.format(of * row["alone"]) for _ in alone],
            f"{row['seconds']:.1f}",
            "" if row["ms_per_text"] is None else f"{row['ms_per_text']:.2f}",
        )
    return grid


def _are_alone(comparison: Comparison) -> bool:
    """Whether Transformers are scored without their linear part, too."""
    return any(row["alone"] is not None for row in comparison.rows)


def _others_grid(comparison: Comparison, shots: int | str) -> Grid:
    results = comparison.results
    grid = new_grid("", *results.metric.others, left=1)
    for row in results.ranked(shots):
        scores = [results.score(row["method"], shots, name) for name in results.metric.others]
        grid.add_row(row["method"], *("" if score is None else score.written("{:.3g}") for score in scores))
    return grid


def show_scores(record: Record) -> None:
    """The scores of one training."""
    show_metrics(record.metrics)
    if "unknown_share" in record.data:
        show_value("unknown words", f"{record.data['unknown_share']:.3f}")
    show_value("parameters", f"{record.parameters:,}")
    show_value("seconds", f"{record.seconds:.1f}")


def show_metrics(metrics: Mapping[str, Any]) -> None:
    """A score per line, with its interval if it has one."""
    from vnait.shared.statistics import Interval  # scipy, which other commands do not wait for

    shown = {name: value for name, value in metrics.items() if not isinstance(value, list | str)}
    ends = {f"{name}_{end}" for name in shown for end in ("low", "high")}
    for name, value in sorted(shown.items()):
        if name not in ends:
            interval = Interval(value, shown.get(f"{name}_low"), shown.get(f"{name}_high"))
            show_value(name, interval.written("{:.4g}" if name.endswith(("rmse", "mae")) else "{:.3f}"))


def show_value(name: str, value: str) -> None:
    """A line with a name and its value, in a column that holds the longest name of a score."""
    echo(f"{name:27} {value}")


def show_explanation(explanation: Explanation) -> None:
    """A row per token, with its gap as a bar; then the method, the heads and the first layer's scores."""
    from vnait.results.explanation.display import (
        ADDS,
        CONTROL,
        EQUAL,
        WITHOUT_ADDS,
        logit_parts,
        probability_of,
    )

    label, answer = explanation.label, explanation.answer
    echo(f"{label}  ({probability_of(label, answer, explanation.probability)})")
    echo(fill(logit_parts(explanation), Console().width), end="\n\n")
    _show_tokens(explanation)
    echo()
    _fact("adds", ADDS if explanation.attribution is not None else WITHOUT_ADDS)
    _fact("method", f"{explanation.method}: {explanation.formula}")
    for words in explanation.enters:
        _fact("enters", words)
    if explanation.gaps_are_equal:
        _fact("gaps", EQUAL)
    if explanation.control is not None:
        _fact("shuffled", CONTROL)
    _fact("parameters", f"{explanation.parameters:,} of the method")
    for layer, kinds in enumerate(explanation.heads, 1):
        _fact("heads" if layer == 1 else "", f"layer {layer}: {', '.join(map(str, kinds))}")
    if not explanation.shares:  # a fine-tuned base
        return
    means = {term: 100 * sum(heads) / len(heads) for term, heads in explanation.shares.items() if any(heads)}
    parts = ", ".join(f"{term} {mean:.0f}" for term, mean in sorted(means.items(), key=lambda item: -item[1]))
    _fact("scores", f"of layer 1, shares in %, mean over heads: {parts or 'none, all keys are equal'}")


def _show_tokens(explanation: Explanation) -> None:
    """A row per token, with only the columns that the model has; its bar is of its gap, or of what it adds if
    all gaps are equal.
    """
    from vnait.results.explanation.display import printable

    names = [printable(token) for token in explanation.tokens]
    width = max(cell_len(name) for name in [*names, "token"])
    columns = [  # title, width, sign, values
        ("coordinate", 10, "", explanation.coordinates),
        ("gap", 6, "", explanation.gaps),
        ("shuffled", 8, "", explanation.control),
        ("rho", 5, "", explanation.similarity),
        ("adds", 5, "+", explanation.attribution),
    ]
    shown = [(title, size, sign, values) for title, size, sign, values in columns if values is not None]
    head = "token".ljust(width) + "".join(f"  {title:>{size}}" for title, size, _, _ in shown)
    drawn, bars = "gap", [max(gap, 0.0) for gap in explanation.gaps]
    if explanation.gaps_are_equal and explanation.attribution is not None:
        drawn, bars = "adds", explanation.attribution
    echo(f"{head}  {drawn} as a bar")
    unknown = "" if all(explanation.known) else "  (unknown word)"
    longest = max(min(BAR, Console().width - len(head) - 2 - len(unknown)), 1)
    unit = max(map(abs, bars), default=0.0) or 1.0
    for row, name in enumerate(names):
        padding = " " * (width - cell_len(name))  # not ljust: a Chinese character takes two cells
        cells = "".join(f"  {values[row]:{sign}{size}.2f}" for _, size, sign, values in shown)
        mark = "#" if drawn == "gap" else "+" if bars[row] > 0 else "-"
        bar = mark * round(longest * abs(bars[row]) / unit)
        note = "" if explanation.known[row] else unknown
        echo(f"{name}{padding}{cells}  {bar}{note}".rstrip())
    if explanation.constant is not None:  # under adds, the last column
        echo("(constant)".ljust(width) + f"{explanation.constant:+.2f}".rjust(len(head) - width))


def show_terms(facts: dict[str, Any]) -> None:
    """The answer of a simple model; what each token adds to its logit; the terms that add most."""
    from vnait.results.explanation.display import printable, probability_of

    label = facts["label"]
    probability = probability_of(label, facts["answer"], facts["probability"])
    echo(f"{label}  ({probability}), by {facts['method']}\n")
    grid = new_grid("token", "adds to the logit", left=1)
    for token, added in zip(facts["tokens"], facts["attribution"], strict=True):
        grid.add_row(printable(token), f"{added:+.2f}")
    print_wrapped(grid)
    _fact("adds", facts["by"])
    echo()
    grid = new_grid("term", "adds to the logit", left=1)
    first, rest = list(facts["terms"].items())[:TERMS], list(facts["terms"].values())[TERMS:]
    for term, added in first:
        grid.add_row(term, f"{added:+.2f}")
    if rest:
        grid.add_row(f"({plural(len(rest), 'more term')})", f"{sum(rest):+.2f}")
    grid.add_row("(bias)", f"{facts['bias']:+.2f}")
    print_wrapped(grid)


def _fact(name: str, words: str) -> None:
    echo(fill(f"{name:12}{words}", Console().width, subsequent_indent=" " * 12))


def show_methods(rows: Sequence[dict[str, Any]], *, dim: int, max_length: int) -> None:
    """The methods. Formula and source have their own lines, so that nothing is cut at 80 columns."""
    wide = max(len(row["name"]) for row in rows)
    echo(f"Width {dim}, longest text {max_length}.\n")
    echo(f"{'method':{wide}} {'parameters':>10}  learned  causal")
    for row in rows:
        learned, causal = ("yes" if row[name] else "no" for name in ("learned", "causal"))
        echo(f"\n{row['name']:{wide}} {row['parameters']:>10,}  {learned:7}  {causal}")
        for line in (row["formula"], row["source"]):
            echo(indent(fill(line, Console().width - 4), "    "))


def show_sizes(rows: Sequence[dict[str, Any]], *, dim: int) -> None:
    """Parameter counts, compared to a table of 512 rows."""
    grid = new_grid(f"width {dim}", "parameters", "beside 512 rows", left=1)
    for row in rows:
        ratio = row["against_table_512"]
        more = f"{ratio:.1f} times more" if ratio > 1 else f"{1 / ratio:.1f} times fewer"
        grid.add_row(row["name"], f"{row['parameters']:,}", "the same" if ratio == 1 else more)
    print_wrapped(grid)


def show_conformance(rows: Sequence[Row]) -> None:
    """Laws by implementations, in blocks that fit the width; then each broken law with its smallest failing
    input, and the reasons for laws that do not apply.
    """
    laws = list(dict.fromkeys(row.law for row in rows))
    marks = {(row.implementation, row.law): {True: "yes", False: "NO", None: "-"}[row.passed] for row in rows}
    for names in blocks_of(list(dict.fromkeys(row.implementation for row in rows)), max(map(len, laws))):
        grid = new_grid("law", *("\n".join(folded(name)) for name in names), left=1)
        for law in laws:
            grid.add_row(law, *(marks[name, law] for name in names))
        print_wrapped(grid)
        echo()
    broken = [row for row in rows if row.passed is False]
    for row in broken:
        echo(f"{row.implementation}: {row.law}: {row.detail}")
    skipped = [row for row in rows if row.passed is None]
    _show_reasons(skipped)
    passed = len(rows) - len(broken) - len(skipped)
    echo(f"\n{passed} kept, {len(broken)} broken, {len(skipped)} not applicable (-)")


def _show_reasons(skipped: Sequence[Row]) -> None:
    """A line per reason why laws do not apply, with these laws and the implementations."""
    for reason in dict.fromkeys(row.detail for row in skipped):
        rows = [row for row in skipped if row.detail == reason]
        names = list(dict.fromkeys(row.implementation for row in rows))
        listed = ", ".join(names) if len(names) <= 3 else f"{len(names)} implementations"
        echo(f"-  {', '.join(dict.fromkeys(row.law for row in rows))}: {reason} ({listed})")


def blocks_of(names: Sequence[str], first: int) -> list[list[str]]:
    """Names of columns, in blocks that fit the terminal beside a first column of this width."""
    blocks: list[list[str]] = [[]]
    room = Console().width - first - 2
    for name in names:
        width = max(map(len, folded(name))) + 2
        if blocks[-1] and width > room:
            blocks.append([])
            room = Console().width - first - 2
        blocks[-1].append(name)
        room -= width
    return blocks


def folded(name: str) -> list[str]:
    """The lines of a long name, broken after hyphens and colons."""
    lines = [""]
    for part in re.findall(r"[^-:]+[-:]?", name):
        if lines[-1] and len(lines[-1]) + len(part) > HEADING:
            lines.append("")
        lines[-1] += part
    return lines


def new_grid(*titles: str, left: int) -> Grid:
    """An empty table; the first `left` columns are aligned left, the others right, the first never wraps."""
    grid = Grid(box=None, pad_edge=False, padding=(0, 2, 0, 0))
    for number, title in enumerate(titles):
        grid.add_column(title, justify="left" if number < left else "right", no_wrap=number == 0)
    return grid


def print_wrapped(what: Any) -> None:
    """Print a text or a table, wrapped at the width of the terminal, without markup."""
    console = Console(highlight=False, soft_wrap=False, markup=False, color_system=None)
    with console.capture() as captured:
        console.print(what)
    echo(captured.get(), end="")
