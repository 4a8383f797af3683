"""Texts that change between training and test, and tasks other than one class per text."""

from __future__ import annotations

from vnait.positions.methods import BASE_POSITIONS
from vnait.results.record import Record
from vnait.shared.statistics import interval
from vnait.train.baselines import OF_TAGS
from vnait_lab.page.parts import (
    Judged,
    Section,
    difference,
    grid,
    judge,
    per_name,
    percent,
    prose,
    scored,
    table,
)
from vnait_lab.records import BASELINES, by_seed, values_of, where
from vnait_lab.runs import (
    insertions,
    longer_articles,
    package_sizes,
    packages,
    replies,
    retokenization,
    tagging,
    translations,
)
from vnait_lab.study import Verdict
from vnait_lab.suites.elastic import reads_words

DATA = "VNAIT_DATA=DIR python -m vnait_lab.runs"
LANGUAGES = {"wordalign_enfr": "English-French", "wordalign_jaen": "Japanese-English"}
ASKED = {
    "third": "the third of the words in which a mark stands",
    "moved": "whether halves were exchanged",
}
RETOKENIZED = {
    "`vnait` loses less than `sinusoidal`, `rope` and `alibi` if letters are counted": retokenization.least,
    "known places in words keep every method within two points": retokenization.kept,
}
LONG_DOCUMENTS = {
    "accuracy_alone": "articles alone",
    "accuracy_long": "in 1,900 tokens",
    "accuracy_windows": "in 1,900 tokens, by windows of 512",
    "accuracy_articles": "long articles",
}


def of_insertions(records: list[Record]) -> Section:
    """Real texts into which things were inserted that don't count."""
    sets = values_of(records, "name")
    command = f"{DATA}.insertions --sets {','.join(sets)}"
    harmed = f"{insertions.HARMED:.0%}"
    verdicts: dict[str, Verdict] = {}
    for name in sets:
        runs = where(records, name=name)
        verdicts |= {
            f"On {name} with insertions of three times its length, `vnait` loses at most a third of what the "
            "best method of the raw index loses": insertions.verdict(runs, "vnait", ["more"], 1 / 3),
            f"On {name} with {harmed} of the tokens mistyped or dropped, `vnait` loses less than the best "
            "method of the raw index": insertions.verdict(runs, "vnait", list(insertions.HARMS), 1),
        }
    claims = judge(verdicts, command, source="001, robustness")
    text = prose(
        "insertions",
        run=records[0].run,
        inserted=insertions.TRAINED[0],
        kinds=", ".join(insertions.KINDS),
        harmed=harmed,
        command=command,
    )
    return Section(per_name(text, sets, lambda name: by_insertion(where(records, name=name))), claims)


def by_insertion(records: list[Record]) -> str:
    kinds = (*insertions.TESTS, *insertions.HARMS)
    ran = values_of(records, "method")
    order = [*insertions.METHODS_RUN, *sorted({*ran} - {*insertions.METHODS_RUN})]
    lines: list[list[object]] = []
    for method in (name for name in order if name in ran):
        runs = where(records, method=method)
        name = method if method == insertions.FILTERED or not reads_words(method) else f"{method} *"
        scores = [percent(record.metrics[f"accuracy_{kind}"] for record in runs) for kind in kinds]
        lines.append(
            [name, len(runs), *scores, percent((insertions.drop(record, "more") for record in runs), "+")]
        )
    return table(["method", "draws", *kinds, "clean minus more"], lines)


def of_longer_articles(records: list[Record]) -> Section:
    """Articles of twice the training length."""
    command = f"{DATA}.longer_articles"
    trained, read, run = longer_articles.TRAINED, longer_articles.READ, longer_articles.RUN
    claim = Judged(
        f"Trained on articles of up to {trained} words, `vnait` finds at {read} words whether their halves "
        "are in order better than `none`, `sinusoidal`, `rope` and `vnait-uniform`",
        longer_articles.verdict(records),
        command,
        source="000, section 4.2, twice the length",
    )
    accuracies = grid(
        "method",
        longer_articles.METHODS_RUN,
        {f"{length} words": f"accuracy_{length}" for length in (trained, read)},
        lambda method, metric: scored(records, metric, method=method),
    )
    text = prose(
        "longer_articles", read=read, trained=trained, run=run, command=command, accuracies=accuracies
    )
    return Section(text, [claim])


def of_translations(records: list[Record]) -> Section:
    """Is the second text the translation of the first?"""
    command = f"{DATA}.translations"
    verdicts = {
        f"`vnait` recognizes {LANGUAGES[name]} translations better than bags of words, `none`, "
        "`sinusoidal` and `vnait-uniform`": translations.verdict(records, name)
        for name in translations.FILES
    }
    claims = judge(verdicts, command, source="this project, pairs of texts")
    accuracies = grid(
        "method",
        (*BASELINES, *translations.METHODS_RUN),
        {LANGUAGES[name]: name for name in translations.FILES},
        lambda method, name: scored(records, "accuracy", method=method, name=name),
    )
    text = prose("translations", steps=translations.RUN.steps, command=command, accuracies=accuracies)
    return Section(text, claims)


def of_tagging(records: list[Record]) -> Section:
    """Parts of speech from few sentences."""
    command = f"{DATA}.tagging"
    verdicts = {
        f"From {sizes[0]:,} to {sizes[-1]:,} sentences of {name}, `vnait` tags words better than `none`, "
        "`sinusoidal`, `rope` and a regression of words and neighbours": tagging.verdict(records, name)
        for name, sizes in tagging.SIZES.items()
    }
    claims = judge(verdicts, command, source="000, section 5.1, parts of speech")
    text = prose("tagging", steps=tagging.RUN.steps, command=command)

    def by_size(name: str) -> str:
        return table(
            ["method", *(f"{size:,} sentences" for size in tagging.SIZES[name])],
            [
                [
                    method + words,
                    *(
                        scored(records, "token_accuracy", method=method, name=name + words, shots=size)
                        for size in tagging.SIZES[name]
                    ),
                ]
                for words in ("", tagging.SHUFFLED)
                for method in (*OF_TAGS, *tagging.METHODS_RUN)
            ],
        )

    return Section(per_name(text, tagging.SIZES, by_size), claims)


def of_package_tags(records: list[Record]) -> Section:
    """Several labels per text: what programs are for."""
    command = "python -m vnait_lab.runs.package_tags available"
    verdicts = {
        f"{statement} from {rows} descriptions of programs": packages.verdict(records, rows, others)
        for statement, others in (
            ("`vnait` learns labels better than bags of words of a fixed penalty", BASELINES),
            ("Positions help `vnait` to learn labels", packages.POSITIONS),
        )
        for rows in packages.LEARNED
    }
    claims = judge(verdicts, command, source="this project, several labels per text")
    scores = grid(
        "method",
        (*BASELINES, *packages.METHODS_RUN),
        {f"{rows} descriptions": rows for rows in packages.LEARNED},
        lambda method, rows: scored(records, "micro_f1", method=method, shots=rows),
    )
    text = prose("package_tags", command=command, scores=scores)
    return Section(text, claims)


def of_package_sizes(records: list[Record]) -> Section:
    """A number per text: how large programs are."""
    command = "python -m vnait_lab.runs.package_sizes available"
    learned = " and ".join(f"{rows:,}" for rows in packages.LEARNED)
    verdicts = {
        f"{statement} from {rows} descriptions": packages.verdict(records, rows, others, "spearman")
        for statement, others in (
            ("`vnait` ranks sizes better than bags of words of a fixed penalty", package_sizes.BAGS),
            ("Positions help `vnait` to rank programs by size", packages.POSITIONS),
        )
        for rows in packages.LEARNED
    }
    claims = judge(verdicts, command, source="this project, a number per text")

    def cell(method: str, column: tuple[str, int]) -> str:
        what, rows = column
        if what == "error":
            errors = by_seed(records, "rmse", method=method, shots=rows)
            return interval(list(errors.values())).written("{:.3f}")
        return "-" if method == "mean" else scored(records, "spearman", method=method, shots=rows)

    scores = grid(
        "method",
        ("mean", *package_sizes.BAGS, *packages.METHODS_RUN),
        {f"{what}, {rows}": (what, rows) for rows in packages.LEARNED for what in ("error", "rank")},
        cell,
    )
    text = prose("package_sizes", learned=learned, command=command, scores=scores)
    return Section(text, claims)


def of_retokenization(records: list[Record]) -> Section:
    """The same texts in the pieces of another tokenizer."""
    command = f"{DATA}.retokenization"
    verdicts = {
        f"Trained on words and read in letters, {statement}: {ASKED[name]}": verdict(
            where(records, name=name)
        )
        for name in retokenization.ASKS
        for statement, verdict in RETOKENIZED.items()
    }
    claims = judge(verdicts, command, source="this project, another tokenizer")
    columns = {
        f"{segments}, {known}": f"accuracy_{segments}_{known}"
        for segments in retokenization.SEGMENTS
        for known in retokenization.KNOWN
    }

    def by_pieces(name: str) -> str:
        runs = where(records, name=name)
        return grid(
            "method",
            retokenization.METHODS_RUN,
            columns,
            lambda method, metric: scored(runs, metric, method=method),
        )

    tables = [f"### {name}: {ASKED[name]}\n\n{by_pieces(name)}" for name in retokenization.ASKS]
    text = prose("retokenization", merges=retokenization.SEGMENTS["pieces"], command=command)
    return Section("\n\n".join([text, *tables]), claims)


def of_replies(records: list[Record]) -> Section:
    """Documents with repeated headers and quoted replies."""
    command = f"{DATA}.replies"
    verdicts = {
        f"On articles with {kind} of up to three times their length, `vnait` loses at most a third of "
        "what the best method of the raw index loses": replies.verdict(records, f"{kind}_more")
        for kind in replies.KINDS
    }
    claims = judge(verdicts, command, source="001, robustness")
    lines: list[list[object]] = []
    for method, task in dict.fromkeys((record.method, str(record.data["name"])) for record in records):
        runs = where(records, method=method, name=task)
        name = f"{method} *" if reads_words(method) else method
        scores = [percent(record.metrics[f"accuracy_{test}"] for record in runs) for test in replies.TESTS]
        losses = ["", ""]
        if task == replies.TASK:
            lost = (replies.lost(records, method, f"{kind}_more") for kind in replies.KINDS)
            losses = [percent(loss.values(), "+") for loss in lost]
        lines.append([task if task == insertions.FILTERED else name, len(runs), *scores, *losses])
    tests = [test.replace("_", ", ") for test in replies.TESTS]
    text = prose(
        "replies",
        command=command,
        table=table(["method", "seeds", *tests, "lost by headers", "lost by quotes"], lines),
    )
    return Section(text, claims)


def of_long_documents(records: list[Record]) -> Section:
    """Documents longer than a pretrained BERT's table of positions."""
    lines: list[list[object]] = []
    base = by_seed(records, "accuracy_long", method=BASE_POSITIONS)
    for method in values_of(records, "method"):
        runs = where(records, method=method)
        scores = (scored(runs, metric) for metric in LONG_DOCUMENTS)
        minus = "" if method == BASE_POSITIONS else difference(by_seed(runs, "accuracy_long"), base)
        lines.append([method, len(runs), *scores, minus])
    run, data = records[0].run, records[0].data
    text = prose(
        "long_documents",
        data=data,
        run=run,
        table=table(["positions", "seeds", *LONG_DOCUMENTS.values(), "minus own"], lines),
    )
    return Section(text)
