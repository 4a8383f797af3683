"""Methods on the tasks of the length suite."""

from __future__ import annotations

from collections.abc import Sequence

from vnait.positions.methods import METHODS
from vnait.results.record import Record
from vnait_lab.page.parts import Judged, Section, over_seeds, percent, table
from vnait_lab.runs import held_out
from vnait_lab.suites import length
from vnait_lab.suites.suite import Score
from vnait_lab.suites.tasks import TASKS

SHOWN = (40, 320, 500)  # tokens: the training length, and those of the claim


def section(found: list[Record]) -> Section:
    run = found[0].run
    claim = Judged(
        "Trained on 8 to 40 tokens, `vnait` has an accuracy of 95 % or more on every task, and of 98 % on "
        "average, at 320 and 500",
        length.verdict(length.SUITE.summary(found), "vnait"),
        "vnait study length --methods vnait --seeds 10 --out studies/records/length",
        source="000, section 4.2, unseen lengths",
    )
    text = f"""## Length: trained on 8 to 40 tokens

Setting of every method: {run["steps"]:,} steps of {run["batch"]} texts, {run["num_hidden_layers"]} layers of
width {run["hidden_size"]}, no dropout; {run["tests"]} new texts per length. Seeds differ in initial weights
and texts; they share the order of lengths and the random draws of training, such as jitter. Accuracy in %,
mean over seeds; in brackets if the method was below 90 at the training length, so it did not learn the task.
The last column is the mean over tasks with its 95 % interval over seeds. The records also have 80 and 160
tokens. The tasks are in `src/vnait_lab/suites/tasks.py`."""
    return Section("\n\n".join([text, *by_length(found)]), [claim])


def by_length(found: Sequence[Record], prefix: str = "") -> list[str]:
    """Per length a heading, which starts with `prefix`, and a table of methods and tasks."""
    scores = length.SUITE.summary(found)
    return [f"### {prefix}{tokens} tokens\n\n{by_method(found, scores, tokens)}" for tokens in SHOWN]


def by_method(found: Sequence[Record], scores: Sequence[Score], tokens: int) -> str:
    cells = {(score.method, score.task): shown(score, tokens) for score in scores}
    tasks = sorted({score.task for score in scores}, key=[*TASKS, *held_out.SEEN, *held_out.HELD_OUT].index)
    lines: list[list[object]] = []
    for name in sorted({score.method for score in scores}, key=list(METHODS).index):
        own = [one for one in found if one.method == name]
        complete = {one.data["name"] for one in own} == set(tasks)
        means = over_seeds(own, lambda one: one.metrics[f"accuracy_{tokens}"])
        by_task = [cells.get((name, task), "-") for task in tasks]
        lines.append([name, len(means), *by_task, percent(means.values()) if complete else "-"])
    return table(["method", "seeds", *tasks, "mean"], lines)


def shown(score: Score, tokens: int) -> str:
    """An accuracy in %; in brackets if the method did not learn the task."""
    accuracy = f"{100 * score.mean(f'accuracy_{tokens}'):.0f}"
    return accuracy if length.learned(score) else f"({accuracy})"
