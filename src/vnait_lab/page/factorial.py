"""Schemes with the same parts, a table and a figure per suite; and `vnait` without one of its parts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from statistics import fmean

import matplotlib
from matplotlib.figure import Figure

from vnait.results.record import Record
from vnait_lab import STUDIES
from vnait_lab.page.parts import Section, difference, judge, mean, percent, prose, table
from vnait_lab.page.suites import far
from vnait_lab.records import BASELINES, among, by_method, by_seed, read, values_of, where
from vnait_lab.runs import ahead
from vnait_lab.runs.ablation import TASKS, VARIANTS_OF
from vnait_lab.runs.factorial import AS_METHODS, SCHEMES, SETS, SUITES, VNAIT
from vnait_lab.studies.figures import STYLE, dots
from vnait_lab.suites import algorithmic, elastic, length
from vnait_lab.suites.few_labels import score_of

FIGURES = Path("records", "factorial")  # in the page's folder
WITHOUT = {"vnait": "vnait without relation", "vnait-warp": "no relation"}  # the variant without the relation
Scores = dict[str, dict[int, float]]  # variant -> seed -> accuracy


def with_methods(records: list[Record], suite: str) -> list[Record]:
    """Records of a factorial on the tasks that count, and those of the methods that are variants of it, on
    the same tasks and seeds.
    """
    methods = read(suite)
    if suite == elastic.SUITE.name:
        counted = elastic.counted(elastic.SUITE.summary(methods))
        records = among(records, name=counted)
    runs = {(record.data["name"], record.seed) for record in records}
    return records + [
        replace(record, method=AS_METHODS[record.method])
        for record in among(methods, method=AS_METHODS)
        if (record.data["name"], record.seed) in runs
    ]


def by_variant(records: list[Record], suite: str) -> Scores:
    """Per variant that ran every task, and per seed, the mean accuracy past the training lengths: means over
    different tasks do not compare.
    """
    past = partial(past_training, suite=suite)
    return {
        variant: by_seed(records, past, method=variant)
        for variant in values_of(records, "method")
        if {*values_of(where(records, method=variant), "name")} == {*values_of(records, "name")}
    }


def past_training(record: Record, suite: str) -> float:
    """The mean accuracy past the training lengths, as the suite's verdict counts it."""
    lengths = algorithmic.FAR if suite == "algorithmic" else length.FAR
    return fmean(record.metrics[f"accuracy_{tokens}"] for tokens in lengths)


def section(ran: list[Record], suite: str) -> Section:
    records = with_methods(ran, suite)
    scores = by_variant(records, suite)
    columns = columns_of(scores)
    tasks, steps = len(values_of(records, "name")), records[0].run["steps"]
    lines = [
        [scheme, *(percent(scores.get(f"{scheme}: {parts}", {}).values()) for parts in columns)]
        for scheme in SCHEMES
    ]
    lines.append(["best other", *(best_other(scores, parts) for parts in columns)])
    lines += [[f"{name} minus it", *(lead(scores, parts, name) for parts in columns)] for name in VNAIT]
    picture = f"\n\n![{suite} suite]({FIGURES / suite}.png)"
    return Section(
        prose(
            "factorial",
            suite=suite,
            steps=steps,
            tasks=tasks,
            table=table(["scheme", *columns], lines),
            picture=picture,
        )
    )


def columns_of(scores: Scores) -> list[str]:
    """The sets of parts that a variant has."""
    return [parts for parts in SETS if any(variant.endswith(f": {parts}") for variant in scores)]


def figure(scores: Scores) -> Figure:
    """A row per scheme that ran, a mark per seed and set of parts."""
    schemes = [scheme for scheme in SCHEMES if any(variant.startswith(f"{scheme}: ") for variant in scores)]
    groups = {
        parts: [
            [100 * accuracy for accuracy in scores.get(f"{scheme}: {parts}", {}).values()]
            for scheme in schemes
        ]
        for parts in columns_of(scores)
    }
    with matplotlib.rc_context(STYLE):
        drawn = Figure(figsize=(7.0, 4.5), layout="constrained")
        axes = drawn.add_subplot()
        dots(axes, schemes, groups)
        axes.set_xlabel("accuracy past the training lengths, %, one mark per seed")
        axes.legend(title="parts", loc="center left", bbox_to_anchor=(1, 0.5), frameon=False)
    return drawn


def draw_figures() -> None:
    """A figure per suite that has records."""
    for suite in SUITES:
        if ran := read(f"factorial/{suite}"):
            drawn = figure(by_variant(with_methods(ran, suite), suite))
            drawn.savefig(STUDIES / FIGURES / f"{suite}.png", dpi=110, metadata={"Software": None})


def best_other(scores: Scores, parts: str) -> str:
    """The best scheme with these parts that is not this project's."""
    others = {
        scheme: fmean(scores[f"{scheme}: {parts}"].values())
        for scheme in SCHEMES
        if scheme not in VNAIT and f"{scheme}: {parts}" in scores
    }
    return max(others, key=others.__getitem__, default="-")


def lead(scores: Scores, parts: str, name: str) -> str:
    ours, best = (scores.get(f"{scheme}: {parts}", {}) for scheme in (name, best_other(scores, parts)))
    return difference(ours, best) if ours and best else "-"


def of_ablation(records: list[Record]) -> Section:
    command = "python -m vnait_lab.runs.ablation"
    on_tasks = among(records, name=TASKS)
    verdicts = {
        f"The relation of e and s makes `{whole}` better, over {len(TASKS)} tasks of the length suite": ahead(
            by_method(on_tasks, far, (whole, without)), whole
        )
        for whole, without in WITHOUT.items()
    }
    claims = judge(verdicts, command, source="000, section 3.6, relation")
    text = prose("ablation", command=command, table=ablated(on_tasks, TASKS))
    further = among(records, name={*values_of(records, "name")} - {*TASKS})
    if further:
        more = values_of(further, "name")
        variants = values_of(where(further, name=more[0]), "method")
        text += prose("ablation_more", table=ablated(among(further, method=variants), more))
    return Section(text, claims)


def ablated(records: Sequence[Record], tasks: Sequence[str]) -> str:
    """One line per variant: its accuracy per task, and its difference to the whole method if all tasks
    ran.
    """
    lines: list[list[object]] = []
    for whole, variants in VARIANTS_OF.items():
        base = by_seed(records, far, method=whole)
        for variant in dict.fromkeys([whole, *variants]):
            if scores := by_seed(records, far, method=variant):
                runs = where(records, method=variant)
                complete = {*values_of(runs, "name")} == set(tasks)
                each = [mean(far(record) for record in where(runs, name=task)) for task in tasks]
                minus = difference(scores, base) if variant != whole and complete else ""
                lines.append([variant, len(scores), *each, minus])
    return table(["arm", "seeds", *tasks, "minus the whole"], lines)


def of_ablation_on_few_labels(records: list[Record]) -> Section:
    sets = values_of(records, "name")
    ran = values_of(records, "method")
    first, *_ = VARIANTS_OF  # the method that the controls are paired with
    whole_of = {variant: whole for whole, variants in VARIANTS_OF.items() for variant in (whole, *variants)}
    lines: list[list[object]] = []
    for variant in (*BASELINES, "none", *whole_of):
        if variant in ran:
            whole = whole_of.get(variant, first)
            line: list[object] = [variant]
            for name in sets:
                scores, base = (
                    by_seed(records, score_of, method=compared, name=name) for compared in (variant, whole)
                )
                minus = "" if variant == whole else difference(scores, base)
                line += [len(scores), mean(scores.values()), minus]
            lines.append(line)
    heads = [head for name in sets for head in ("draws", name, "minus the whole")]
    shots = " and ".join(map(str, sorted({record.data["shots"] for record in records})))
    text = prose("ablation_few_labels", shots=shots, sets=",".join(sets), table=table(["arm", *heads], lines))
    return Section(text)
