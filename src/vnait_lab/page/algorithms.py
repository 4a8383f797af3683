"""Methods on the algorithmic suite, over tasks and per task."""

from __future__ import annotations

from statistics import fmean

from vnait.results.record import Record
from vnait_lab.page.parts import Judged, Section, difference, over_seeds, percent, table, with_commas
from vnait_lab.suites import algorithmic
from vnait_lab.suites.algorithms import ALGORITHMS
from vnait_lab.suites.suite import Score, Standing, run_by_all


def section(found: list[Record]) -> Section:
    everything = algorithmic.SUITE.summary(found)
    scores = run_by_all(everything)
    overall = algorithmic.overall(scores)
    methods = [standing.method for standing in overall]
    tasks = sorted({score.task for score in scores}, key=list(ALGORITHMS).index)
    claim = Judged(
        "Past the training length `vnait` has the highest accuracy on the algorithmic tasks, 12 points above "
        "the best non-randomized method",
        algorithmic.verdict(everything, "vnait"),
        f"vnait study algorithmic --methods {with_commas(methods)} --seeds 3 "
        "--out studies/records/algorithmic",
        source="000, section 4.2, unseen lengths",
    )
    run = found[0].run
    text = f"""## Algorithms: trained on 1 to 40 symbols

{len(tasks)} of the {len(ALGORITHMS)} tasks of `src/vnait_lab/suites/algorithms.py`, those that all of these
methods ran; {run["steps"]:,} steps of {run["batch"]} texts, {run["num_hidden_layers"]} layers of width
{run["hidden_size"]}. Share of right answers in %, mean over tasks and seeds: at 40 symbols, and at 60 to 500
with its 95 % interval over seeds, then per level of the hierarchy. The last column is `vnait` minus the
method, paired by seed.

{over_tasks(overall, [one for one in found if one.data["name"] in tasks])}

Per task at 60 to 500 symbols, in brackets at 40; the second column is the accuracy of guessing:

{per_task(scores, tasks, methods)}"""
    return Section(text, [claim])


def over_tasks(overall: list[Standing], found: list[Record]) -> str:
    """One line per method: its means, by level too, and `vnait` minus it; `found` has the tasks' records."""
    seeds = {
        standing.method: over_seeds([one for one in found if one.method == standing.method], far)
        for standing in overall
    }
    levels = [name for name in overall[0].means if name.startswith("accuracy_far_")]
    lines = [
        [
            standing.method,
            len(seeds[standing.method]),
            f"{100 * standing.means['accuracy_40']:.1f}",
            percent(seeds[standing.method].values()),
            *(f"{100 * standing.means[name]:.1f}" for name in levels),
            "-" if standing.method == "vnait" else difference(seeds["vnait"], seeds[standing.method]),
        ]
        for standing in overall
    ]
    heads = [name.removeprefix("accuracy_far_") for name in levels]
    return table(["method", "seeds", "40", "60 to 500", *heads, "vnait minus it"], lines)


def far(one: Record) -> float:
    return fmean(one.metrics[f"accuracy_{symbols}"] for symbols in algorithmic.FAR)


def per_task(scores: list[Score], tasks: list[str], methods: list[str]) -> str:
    """One line per task: what guessing gives, and every method."""
    cells = {
        (one.task, one.method): f"{100 * one.mean('accuracy_far'):.0f} ({100 * one.mean('accuracy_40'):.0f})"
        for one in scores
    }
    lines = [
        [task, f"{100 * ALGORITHMS[task].chance:.0f}", *(cells[task, method] for method in methods)]
        for task in tasks
    ]
    return table(["task", "guessing", *methods], lines)
