"""Write studies/README.md from the records beside it: python studies/readme.py"""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from vnait import record, suites
from vnait.methods import METHODS

HERE = Path(__file__).parent
LENGTH = HERE / "records" / "length" / "records.jsonl"

PAGE = """# Studies

Written by `python studies/readme.py` from the records in `studies/records`; dated findings are in [LOG.md](LOG.md).

| claim | verdict | what was found | command |
|---|---|---|---|
{verdicts}

## Length: trained on 8 to 40 tokens

One budget for all: {steps:,} steps of {batch} texts, {layers} layers of width {width}, no dropout; {tests} new texts a length. Accuracy
in %, the mean over seeds (their number in the head); in brackets where a method stayed below 90 at the training length, and so did not
learn the task. The tasks are in `src/vnait/suites/tasks.py`.
{tables}"""


def page(found: Sequence[record.Record]) -> str:
    rows = suites.summary(found)
    word, said = suites.verdict(rows, "vnait")
    command = "`vnait study length --out studies/records/length`"
    claim = "Trained on 8 to 40 tokens, `vnait` holds 95 % on every task and 98 % on average at 320 and 500"
    line = f"| {claim} | {word} | {said} | {command} |"
    run = found[0].run
    return PAGE.format(
        verdicts=line,
        steps=run["steps"],
        batch=run["batch"],
        layers=run["num_hidden_layers"],
        width=run["hidden_size"],
        tests=run["tests"],
        tables="".join(f"\n### {length} tokens\n\n{table(rows, length)}\n" for length in suites.LENGTHS),
    )


def table(rows: Sequence[dict[str, Any]], length: int) -> str:
    cells = {(row["task"], row["method"]): row for row in rows}
    names = sorted({row["method"] for row in rows}, key=list(METHODS).index)
    tasks = [name for name in suites.TASKS if any(row["task"] == name for row in rows)]
    seeds = {name: min(row["seeds"] for row in rows if row["method"] == name) for name in names}
    head = ["task", *(f"{name} ({seeds[name]})" for name in names)]
    lines = [head, ["---"] * len(head)]
    lines += [[task, *(cell(cells.get((task, name)), length) for name in names)] for task in tasks]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def cell(row: dict[str, Any] | None, length: int) -> str:
    if row is None:
        return "-"
    score = f"{100 * row[f'accuracy_{length}']:.1f}"
    return score if row["learned"] else f"({score})"


if __name__ == "__main__":
    (HERE / "README.md").write_text(page(record.read(LENGTH)), encoding="utf-8")
