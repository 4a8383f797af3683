"""Methods on the elastic suite."""

from __future__ import annotations

from vnait.positions.methods import METHODS
from vnait.results.record import Record
from vnait_lab.page.parts import Judged, Section, over_seeds, percent, table, with_commas
from vnait_lab.suites import elastic
from vnait_lab.suites.fillers import TASKS
from vnait_lab.suites.suite import Score

SHOWN = (40, 320, 500)  # tokens: the training length, and those of the claim


def section(found: list[Record]) -> Section:
    run = found[0].run
    scores = elastic.SUITE.summary(found)
    methods = {score.method for score in scores}
    claim = Judged(
        "Where only some tokens count, `vnait` has at 320 and 500 tokens an accuracy of 90 % or more "
        "on every task and of 95 % on average, 30 points above methods of the raw index",
        elastic.verdict(scores, "vnait"),
        f"vnait study elastic --methods {with_commas(methods)} --seeds 3 --out studies/records/elastic",
        source="000, section 3.2, key tokens",
    )
    questions = "\n".join(f"- `{name}`, filler by {task.filler}: {task.asks}" for name, task in TASKS.items())
    text = f"""## Filler: what counts must be counted

Texts in which some tokens don't count, by their class, because they repeat the one before, because they stand
between two marks, or which count one half. {run["steps"]:,} steps of {run["batch"]} texts of 8 to 40 tokens,
{run["num_hidden_layers"]} layers of width {run["hidden_size"]}; {run["tests"]} new texts per length. The
labels alone show what counts. A task counts if at 320 and 500 tokens the control, `{elastic.CONTROL}`, is
below {100 * elastic.ALONE:.0f} %, and with an oracle that removes filler at
{100 * elastic.HELPED:.0f} or above:
{", ".join(elastic.counted(scores)) or "none yet"}.

{questions}

Accuracy in %, mean over seeds. The second column has the most seeds of any task; the last one the mean over
the tasks that count, with its 95 % interval over the seeds that ran them all. Coordinates of the methods
marked * read the words."""
    tables = [f"### With filler: {tokens} tokens\n\n{by_method(found, scores, tokens)}" for tokens in SHOWN]
    return Section("\n\n".join([text, *tables]), [claim])


def by_method(found: list[Record], scores: list[Score], tokens: int) -> str:
    cells = {(score.method, score.task): score.mean(f"accuracy_{tokens}") for score in scores}
    tasks, counted = list(TASKS), set(elastic.counted(scores))
    lines: list[list[object]] = []
    for name in sorted({score.method for score in scores}, key=list(METHODS).index):
        own = [one for one in found if one.method == name and one.data["name"] in counted]
        ran = {
            seed: {one.data["name"] for one in own if one.seed == seed} for seed in {one.seed for one in own}
        }
        whole = [one for one in own if ran[one.seed] == counted]
        means = over_seeds(whole, lambda one: one.metrics[f"accuracy_{tokens}"])
        lines.append(
            [
                f"{name} *" if elastic.reads_words(name) else name,
                len(ran),
                *(f"{100 * cells[name, task]:.0f}" if (name, task) in cells else "-" for task in tasks),
                percent(means.values()) if means else "-",
            ]
        )
    oracle = [cells.get((elastic.CONTROL, f"{task}-oracle")) for task in tasks]
    shown = ["-" if mean is None else f"{100 * mean:.0f}" for mean in oracle]
    lines.append([f"{elastic.CONTROL}, oracle", "", *shown, ""])
    return table(["method", "seeds", *tasks, "mean"], lines)
