"""Results of studies as text on standard output."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from itertools import groupby
from math import nan
from operator import itemgetter
from statistics import fmean
from typing import Any

from vnait.cli.terminal import blocks_of, folded, new_grid, print_wrapped


def show_lengths(rows: Sequence[dict[str, Any]], lengths: Sequence[int]) -> None:
    """Accuracy of methods on tasks, one table per length; in brackets if the task was not learned at the
    training length.
    """
    cells = {(row["task"], row["method"]): row for row in rows}
    tasks = list(dict.fromkeys(row["task"] for row in rows))
    names = list(dict.fromkeys(row["method"] for row in rows))
    for length in lengths:
        print(f"{length} tokens")
        for block in blocks_of(names, max(map(len, [*tasks, "mean"]))):
            grid = new_grid("task", *("\n".join(folded(name)) for name in block), left=1)
            for task in tasks:
                grid.add_row(task, *(shown(cells[task, name], length) for name in block))
            means = (fmean(cells[task, name][f"accuracy_{length}"] for task in tasks) for name in block)
            grid.add_row("mean", *(f"{100 * mean:.1f}" for mean in means))
            print_wrapped(grid)
            print()
    print("Accuracy in %. In brackets: below 90 at the training length, so the task was not learned.")


def shown(row: dict[str, Any], length: int) -> str:
    accuracy = f"{100 * row[f'accuracy_{length}']:.1f}"
    return accuracy if row["learned"] else f"({accuracy})"


def show_shares(rows: Sequence[dict[str, Any]], *, name: str) -> None:
    """Names, counts, and shares in % under their own headings; column `name` comes first."""
    heads = list(dict.fromkeys(head for row in rows for head in row))
    heads.sort(key=lambda head: head != name)
    grid = new_grid(*("\n".join(folded(head.replace("_", "-"))) for head in heads), left=2)
    for row in rows:
        values = (row.get(head, "") for head in heads)
        grid.add_row(*(f"{100 * value:.1f}" if isinstance(value, float) else str(value) for value in values))
    print_wrapped(grid)


def show_losses(rows: Sequence[dict[str, Any]], lengths: Sequence[int]) -> None:
    """The loss of methods per length, one table per task, lowest at the training length first."""
    for task, group in groupby(rows, key=itemgetter("task")):
        print(task)
        grid = new_grid("method", "seeds", *(f"{length:,}" for length in lengths), "s", left=1)
        for row in sorted(group, key=itemgetter(f"loss_{lengths[0]}")):
            losses = (f"{row.get(f'loss_{length}', nan):.3f}" for length in lengths)
            grid.add_row(row["method"], str(row["seeds"]), *losses, f"{row['seconds']:.0f}")
        print_wrapped(grid)
        print()
    print("Mean loss per token, in nats, by the length of the windows; s: seconds of a training.")


def show_studies(rows: Sequence[dict[str, Any]]) -> None:
    """One line per study: its name and its subject."""
    grid = new_grid("study", "claims", "about", left=3)
    for row in rows:
        grid.add_row(row["study"], str(row["claims"] or ""), row["about"])
    print_wrapped(grid)


def show_verdicts(rows: Sequence[dict[str, Any]]) -> None:
    """The claims of each study, each with its verdict and its key figures."""
    for name, claims in groupby(rows, key=itemgetter("study")):
        print(f"\n{name}")
        grid = new_grid("", "", left=2)
        grid.show_header = False
        for row in claims:
            condition = f"holds if {row['condition']}: " if row["condition"] else ""
            grid.add_row(f"  {row['verdict']}", f"{row['claim']}\n{condition}{row['found']}")
        print_wrapped(grid)
    words = Counter(row["verdict"] for row in rows)
    print(f"\n{len(rows)} claims: " + ", ".join(f"{count} {word}" for word, count in words.most_common()))
