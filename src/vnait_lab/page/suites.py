"""Methods on the suites of generated tasks."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from statistics import fmean

from vnait.positions.methods import CAUSAL, METHODS
from vnait.results.record import Record
from vnait_lab.page.parts import (
    Judged,
    Section,
    difference,
    grid,
    mean,
    percent,
    prose,
    scored,
    table,
    with_commas,
)
from vnait_lab.records import among, by_seed, values_of, where
from vnait_lab.runs import gaps, held_out, rotation
from vnait_lab.suites import algorithmic, decoding, elastic, fillers, length, tasks
from vnait_lab.suites.algorithms import ALGORITHMS
from vnait_lab.suites.questions import QUESTIONS
from vnait_lab.suites.suite import Score, Standing, run_by_all

SHOWN = (40, 320, 500)  # tokens: the training length, and those of the claim


def of_length(records: list[Record]) -> Section:
    run = records[0].run
    claim = Judged(
        "Trained on 8 to 40 tokens, `vnait` has an accuracy of 95 % or more on every task, and of 98 % on "
        "average, at 320 and 500",
        length.verdict(length.SUITE.summary(records), "vnait"),
        "vnait study length --methods vnait --seeds 10 --out studies/records/length",
        source="000, section 4.2, unseen lengths",
    )
    text = prose("length", run=run)
    return Section("\n\n".join([text, *by_length(records)]), [claim])


def of_held_out(records: list[Record]) -> Section:
    """Tasks of lengths that decided no choice, and those that did so later."""
    new, seen = (among(records, name=names) for names in (held_out.HELD_OUT, held_out.SEEN))
    claim = Judged(
        "The same on six tasks that were written before `vnait` was run on them",
        length.verdict(length.SUITE.summary(new), "vnait", tasks=tuple(held_out.HELD_OUT)),
        "python -m vnait_lab.runs.held_out",
        source="000, section 4.2, unseen lengths",
    )
    text = prose("held_out")
    tables = [*by_length(new, "Held out, "), *by_length(seen, "Held out before, ")]
    return Section("\n\n".join([text, *tables]), [claim])


def by_length(records: Sequence[Record], prefix: str = "") -> list[str]:
    """Per length a heading, which starts with `prefix`, and a table of methods and tasks."""
    scores = length.SUITE.summary(records)
    return [f"### {prefix}{tokens} tokens\n\n{at_length(records, scores, tokens)}" for tokens in SHOWN]


def at_length(records: Sequence[Record], scores: Sequence[Score], tokens: int) -> str:
    cells = {(score.method, score.task): shown(score, tokens) for score in scores}
    order = [*tasks.TASKS, *held_out.SEEN, *held_out.HELD_OUT]
    names = sorted({score.task for score in scores}, key=order.index)
    lines: list[list[object]] = []
    for method in sorted({score.method for score in scores}, key=list(METHODS).index):
        complete = {*values_of(where(records, method=method), "name")} == set(names)
        means = by_seed(records, f"accuracy_{tokens}", method=method).values()
        by_task = [cells.get((method, name), "-") for name in names]
        lines.append([method, len(means), *by_task, percent(means) if complete else "-"])
    return table(["method", "seeds", *names, "mean"], lines)


def shown(score: Score, tokens: int) -> str:
    """An accuracy in %; in brackets if the method did not learn the task."""
    accuracy = f"{100 * score.mean(f'accuracy_{tokens}'):.0f}"
    return accuracy if length.learned(score) else f"({accuracy})"


def of_elastic(records: list[Record]) -> Section:
    run = records[0].run
    scores = elastic.SUITE.summary(records)
    methods = {score.method for score in scores}
    claim = Judged(
        "Where only some tokens count, `vnait` has at 320 and 500 tokens an accuracy of 90 % or more "
        "on every task and of 95 % on average, 30 points above methods of the raw index",
        elastic.verdict(scores, "vnait"),
        f"vnait study elastic --methods {with_commas(methods)} --seeds 3 --out studies/records/elastic",
        source="000, section 3.2, key tokens",
    )
    questions = "\n".join(
        f"- `{name}`, filler by {task.filler}: {task.asks}" for name, task in fillers.TASKS.items()
    )
    text = prose(
        "elastic",
        run=run,
        control=elastic.CONTROL,
        alone=100 * elastic.ALONE,
        helped=100 * elastic.HELPED,
        counted=", ".join(elastic.counted(scores)) or "none yet",
        questions=questions,
    )
    tables = [
        f"### With filler: {tokens} tokens\n\n{with_filler(records, scores, tokens)}" for tokens in SHOWN
    ]
    return Section("\n\n".join([text, *tables]), [claim])


def with_filler(records: list[Record], scores: list[Score], tokens: int) -> str:
    cells = {(score.method, score.task): f"{100 * score.mean(f'accuracy_{tokens}'):.0f}" for score in scores}
    counted = set(elastic.counted(scores))
    counting = among(records, name=counted)
    lines: list[list[object]] = []
    for method in sorted({score.method for score in scores}, key=list(METHODS).index):
        by_method = where(counting, method=method)
        ran = {record.seed: {*values_of(where(by_method, seed=record.seed), "name")} for record in by_method}
        whole = [record for record in by_method if ran[record.seed] == counted]
        lines.append(
            [
                f"{method} *" if elastic.reads_words(method) else method,
                len(ran),
                *(cells.get((method, task), "-") for task in fillers.TASKS),
                scored(whole, f"accuracy_{tokens}"),
            ]
        )
    oracle = (cells.get((elastic.CONTROL, f"{task}-oracle"), "-") for task in fillers.TASKS)
    lines.append([f"{elastic.CONTROL}, oracle", "", *oracle, ""])
    return table(["method", "seeds", *fillers.TASKS, "mean"], lines)


def of_rotation(records: list[Record]) -> Section:
    """What rotates queries and keys beside the shares of the text, and whether these are added, too."""
    tables = [
        f"### Rotation: {suite}, {tokens} tokens\n\n{by_rotation(chosen, tokens)}"
        for suite, names in (("length suite", tasks.TASKS), ("held-out tasks", held_out.HELD_OUT))
        if (chosen := among(records, name=names))  # without those by which the rotation was chosen
        for tokens in SHOWN
    ]
    return Section("\n\n".join([prose("rotation"), *tables]))


def by_rotation(records: list[Record], tokens: int) -> str:
    """A row per variant, a column per task, and the mean over tasks with its interval over seeds."""
    metric, names = f"accuracy_{tokens}", values_of(records, "name")
    lines: list[list[object]] = []
    for variant in (name for name in rotation.VARIANTS if name in values_of(records, "method")):
        runs = where(records, method=variant)
        by_task = (mean(by_seed(runs, metric, name=name).values()) for name in names)
        whole = {*values_of(runs, "name")} == {*names}
        lines.append([variant, *by_task, scored(runs, metric) if whole else "-"])
    return table(["rotation by, spatial vector", *names, "mean"], lines)


def of_gaps(records: list[Record]) -> Section:
    """The sources of learned gaps, their penalty, and ends counted in them."""
    run = records[0].run
    text = prose("gaps", run=run)
    tables = [f"### `{task}`\n\n{by_gaps(records, task)}" for task in values_of(records, "name")]
    return Section("\n\n".join([text, *tables]))


def by_gaps(records: list[Record], task: str) -> str:
    """A row per source and ends, a column per gamma_1."""
    lines: list[list[object]] = []
    for source, ends in itertools.product(gaps.SOURCES, gaps.ENDS):
        runs = [where(records, method=f"{source}, {ends} ends, {gamma}", name=task) for gamma in gaps.GAMMAS]
        if any(runs):
            lines.append([source, ends, *(scored(part, far) if part else "" for part in runs)])
    return table(["gaps", "ends", *(f"gamma_1 = {gamma}" for gamma in gaps.GAMMAS)], lines)


def far(record: Record) -> float:
    """The accuracy at 320 and 500 tokens."""
    return float(record.metrics["accuracy_320"] + record.metrics["accuracy_500"]) / 2


def of_algorithms(records: list[Record]) -> Section:
    summary = algorithmic.SUITE.summary(records)
    scores = run_by_all(summary)
    standings = algorithmic.overall(scores)
    methods = [standing.method for standing in standings]
    names = sorted({score.task for score in scores}, key=list(ALGORITHMS).index)
    claim = Judged(
        "Past the training length `vnait` has the highest accuracy on the algorithmic tasks, 12 points above "
        "the best non-randomized method",
        algorithmic.verdict(summary, "vnait"),
        f"vnait study algorithmic --methods {with_commas(methods)} --seeds 3 "
        "--out studies/records/algorithmic",
        source="000, section 4.2, unseen lengths",
    )
    cells = {
        (score.task, score.method): far_and_near(score, "accuracy_far", "accuracy_40") for score in scores
    }
    guessing = [
        [task, f"{100 * ALGORITHMS[task].chance:.0f}", *(cells[task, method] for method in methods)]
        for task in names
    ]
    run = records[0].run
    text = prose(
        "algorithmic",
        tasks=len(names),
        every=len(ALGORITHMS),
        run=run,
        over_tasks=over_tasks(standings, among(records, name=names)),
        table=table(["task", "guessing", *methods], guessing),
    )
    return Section(text, [claim])


def far_and_near(score: Score, far: str, near: str) -> str:
    """Two shares in %, that at the training length in brackets."""
    return f"{100 * score.mean(far):.0f} ({100 * score.mean(near):.0f})"


def over_tasks(standings: list[Standing], records: list[Record]) -> str:
    """One line per method: its means, by level too, and `vnait` minus it; of the tasks' records."""

    def past(record: Record) -> float:
        return fmean(record.metrics[f"accuracy_{symbols}"] for symbols in algorithmic.FAR)

    seeds = {standing.method: by_seed(records, past, method=standing.method) for standing in standings}
    levels = [name for name in standings[0].means if name.startswith("accuracy_far_")]
    lines = [
        [
            standing.method,
            len(seeds[standing.method]),
            f"{100 * standing.means['accuracy_40']:.1f}",
            percent(seeds[standing.method].values()),
            *(f"{100 * standing.means[name]:.1f}" for name in levels),
            "-" if standing.method == "vnait" else difference(seeds["vnait"], seeds[standing.method]),
        ]
        for standing in standings
    ]
    heads = [name.removeprefix("accuracy_far_") for name in levels]
    return table(["method", "seeds", "40", "60 to 500", *heads, "vnait minus it"], lines)


def of_decoding(records: list[Record]) -> Section:
    """Causal methods on the decoding suite."""
    summary = decoding.SUITE.summary(records)
    scores = run_by_all(summary)
    standings = decoding.overall(scores)
    methods = [standing.method for standing in standings]
    claim = Judged(
        "Among decoders that answer longer questions than they were trained on, `vnait-causal` has the "
        "highest mean reciprocal rank",
        decoding.verdict(summary, "vnait-causal"),
        f"vnait study decoding --methods {with_commas(methods)} --seeds 3 --out studies/records/decoding",
        source="000, section 5.2, decoders",
    )
    names = list(dict.fromkeys(score.task for score in scores))
    cells = {(score.task, score.method): far_and_near(score, "exact_far", "exact_near") for score in scores}
    lines = [
        [
            standing.method,
            standing.seeds,
            f"{standing.means['mrr']:.2f}",
            f"{100 * standing.means['exact_far']:.1f}",
            *(cells[task, standing.method] for task in names),
        ]
        for standing in standings
    ]
    run = records[0].run
    text = prose(
        "decoding",
        tasks=len(names),
        every=len(QUESTIONS),
        run=run,
        table=table(["method", "seeds", "MRR", "mean", *names], lines),
    )
    return Section(text, [claim])


def of_decoding_with_neighbours(records: list[Record]) -> Section:
    """Tasks of the decoding suite, by decoders that all have the neighbours of `vnait-causal`."""
    scores = {(score.method, score.task): score for score in decoding.SUITE.summary(records)}
    names = {name: name for name in values_of(records, "name")}
    methods = values_of(records, "method")

    def answers(method: str, name: str) -> str:
        score = scores.get((method, name))
        return "-" if score is None else far_and_near(score, "exact_far", "exact_near")

    def past(record: Record) -> float:
        return fmean(record.metrics[f"exact_{share}"] for share in decoding.FAR)

    def lead(method: str, name: str) -> str:
        ours, theirs = (by_seed(records, past, method=each, name=name) for each in (CAUSAL, method))
        return difference(ours, theirs) if ours and theirs else "-"

    rivals = [method for method in methods if method != CAUSAL]
    text = prose(
        "decoding_neighbours",
        answers=grid("decoder", methods, names, answers),
        leads=grid("decoder", rivals, names, lead),
    )
    return Section(text, [])
