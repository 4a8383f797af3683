"""Methods and baselines on few labels: scores, differences to this project's method, learning curves; next to
a pretrained encoder; and what smaller parts cost.

With the defaults of `vnait compare`, and with an earlier recipe, which trained each model twice.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from vnait import build
from vnait.comparison.plan import NONE, REST
from vnait.positions.building import parameters
from vnait.positions.methods import BASE_POSITIONS, METHODS
from vnait.results.record import Record
from vnait.results.results import ALL, interval_of
from vnait.shared.statistics import paired
from vnait.train.baselines import BASELINES as SIMPLE_MODELS
from vnait.train.baselines import FROZEN_BASE
from vnait.train.run import PREFIX
from vnait_lab.page.parts import Judged, Section, bounded, grid, percent, prose, table
from vnait_lab.records import BASELINES, among, by_seed, values_of, where
from vnait_lab.rules import clear
from vnait_lab.study import Verdict
from vnait_lab.suites import few_labels
from vnait_lab.suites.few_labels import QUICK, SHOTS, SPLITS

PRETRAINED = {
    FROZEN_BASE: "frozen embeddings of the pretrained base",
    f"{PREFIX}{BASE_POSITIONS}": "the base fine-tuned",
}
SIMPLE = tuple(SIMPLE_MODELS)  # those of `vnait compare`
SITUATIONS = {
    REST: "the other texts of the file without labels",
    NONE: "no other text",
}
SOURCE = "000, section 1.2, few labels"
WIDTHS = (64, 128, 256, 512, 768, 1024)
ROWS = 512  # of a learned table, as in BERT
MORE = (64, ALL)  # labels per class, where all nine sets have as many, and every row


def as_compared(records: list[Record], unlabelled: str) -> Section:
    """Methods and simple models with the defaults of `vnait compare`, in one of its two situations."""
    order = [*SIMPLE, *METHODS]
    every = sorted(records, key=lambda record: (str(record.data["name"]), order.index(record.method)))
    records = where(every, shots=QUICK)
    claim = Judged(
        f"With {QUICK} labels per class and {SITUATIONS[unlabelled]} `vnait` is behind no simple model",
        few_labels.behind_none(records, SIMPLE),
        f"VNAIT_DATA=DIR python -m vnait_lab.runs.nine_sets --unlabelled {unlabelled}",
        source=SOURCE,
    )
    sets, methods = values_of(records, "name"), values_of(records, "method")
    text = prose(
        "nine_sets",
        situation=SITUATIONS[unlabelled],
        quick=QUICK,
        scores=heights(records, methods, sets),
        differences=differences(records, sets),
        alone=alone(records, sets),
    )
    for shots in MORE:
        if more := where(every, shots=shots):
            sets, methods = values_of(more, "name"), values_of(more, "method")
            text += prose(
                "nine_sets_more",
                labels="All labels" if shots == ALL else f"{shots} labels per class",
                draws="three seeds of the same rows" if shots == ALL else "ten draws of rows",
                scores=heights(more, methods, sets),
                differences=differences(more, sets),
                alone=alone(more, sets),
            )
    return Section(text.rstrip(), [claim])


def before(records: list[Record]) -> Section:
    """Every method with 8 to 128 labels per class, with the recipe of two trainings."""
    method, title = "vnait-warp", "Few labels, the recipe of two trainings"
    order = [*BASELINES, *METHODS]
    records = sorted(records, key=lambda record: (str(record.data["name"]), order.index(record.method)))
    labels = [int(record.data["shots"]) for record in where(records, method=method)]
    claim = Judged(
        f"{title}: with {min(labels)} to {max(labels)} labels per class `{method}` is above every method, "
        "pooled over sets, above both baselines where order matters, and below them nowhere",
        few_labels.verdict(records, method),
        "VNAIT_DATA=DIR vnait study few-labels --seeds 10 --out studies/records/few_labels_before",
        source=SOURCE,
    )
    areas = {(row["set"], row["method"]): row for row in few_labels.areas(records)}
    sets = list(dict.fromkeys(name for name, _ in areas))
    methods = sorted({name for _, name in areas}, key=order.index)
    at_quick = where(records, shots=QUICK)
    curves = few_labels.curves(records)
    of_curves = [
        record for record in records if len(curves[str(record.data["name"]), record.method, record.seed]) > 1
    ]
    text = prose(
        "few_labels",
        title=title,
        quick=QUICK,
        splits=SPLITS,
        further=further_splits(areas),
        scores=heights(at_quick, methods, sets),
        method=method,
        differences=differences(at_quick, sets, method),
        of_areas=differences(of_curves, sets, method),
        curves=learning_curves(records, areas),
    )
    return Section(text.rstrip(), [claim])


def further_splits(areas: dict[tuple[str, str], dict[str, Any]]) -> str:
    """Which methods ran more than the usual splits, and on which sets."""
    more = {key: row["splits"] for key, row in areas.items() if row["splits"] > SPLITS}
    sets, methods = (sorted({key[part] for key in more}) for part in (0, 1))
    return f"; up to {max(more.values())} of {', '.join(methods)} on {' and '.join(sets)}" if more else ""


def heights(records: Sequence[Record], methods: Sequence[str], sets: Sequence[str]) -> str:
    """The score of every method on every set, of records with one number of labels."""
    scores = {(row["set"], row["method"]): interval_of(row) for row in few_labels.rows(records)}
    return grid(
        "method",
        methods,
        {name: name for name in sets},
        lambda rival, name: bounded(scores.get((name, rival))),
    )


def alone(records: Sequence[Record], sets: Sequence[str], method: str = "vnait") -> str:
    """`method` minus each other Transformer, both without the linear part beside them."""

    def behind(rival: str, name: str) -> str:
        both = (by_seed(mixed, "accuracy_alone", method=model, name=name) for model in (method, rival))
        return percent(paired(*both), sign="+")

    mixed = [record for record in records if "accuracy_alone" in record.metrics]  # not where the share is 0
    rivals = [name for name in values_of(mixed, "method") if name != method]
    return grid("method", rivals, {name: name for name in sets}, behind)


def differences(records: Sequence[Record], sets: Sequence[str], method: str = "vnait") -> str:
    """`method` minus each other one: over the sets that all have, that both have, and per set."""
    pairs = few_labels.paired(records, method)
    gaps = {(row["set"], row["against"]): interval_of(row) for row in pairs}
    others = list(dict.fromkeys(row["against"] for row in pairs))
    names = [name for name in sets if any(row["set"] == name for row in pairs)]
    common = [name for name in names if all((name, rival) in gaps for rival in others)]
    of_common = few_labels.paired(among(records, name=common), method)
    gaps |= {("common", row["against"]): interval_of(row) for row in of_common if row["set"] is None}
    lines = [
        [rival, *(bounded(gaps.get((name, rival)), "+") for name in ("common", None, *names))]
        for rival in others
    ]
    return table(["method", ", ".join(common), "pooled", *names], lines)


def learning_curves(records: Sequence[Record], areas: dict[tuple[str, str], dict[str, Any]]) -> str:
    """One line per set and method that ran with two or more numbers of labels."""
    scores = {(row["set"], row["method"], row["shots"]): interval_of(row) for row in few_labels.rows(records)}
    lines = [
        [*key, *(bounded(scores.get((*key, shots))) for shots in SHOTS), bounded(interval_of(row))]
        for key, row in areas.items()
        if sum((*key, shots) in scores for shots in SHOTS) > 1
    ]
    return table(["set", "method", *map(str, SHOTS), "area"], lines)


def beside_pretrained(records: list[Record]) -> Section:
    """`vnait` without pretraining next to a pretrained encoder, frozen and fine-tuned."""
    sets = [name for name in few_labels.SETS if where(records, name=name)]
    rows = few_labels.paired(records)
    claim = Judged(
        f"With {QUICK} labels per class and no pretraining, `vnait` is above logistic regression "
        f"on the frozen embeddings of a small pretrained encoder, pooled over {len(sets)} sets",
        against_pretrained(rows),
        "VNAIT_DATA=DIR vnait study few-labels --quick --seeds 5 --base MODEL_FOLDER --methods "
        "vnait,none,base:own",
        source="000, section 1.2, few labels",
    )
    behind = [row for row in rows if row["set"] and interval_of(row).sign < 0]
    listed = ", ".join(f"{row['set']} ({row['against']} {bounded(interval_of(row), '+')})" for row in behind)
    draws = ", ".join(f"{name} {len({record.seed for record in where(records, name=name)})}" for name in sets)
    text = prose(
        "few_labels_base",
        quick=QUICK,
        draws=draws,
        scores=heights(records, values_of(records, "method"), sets),
        behind=listed or "no set",
        differences=differences(records, sets),
    )
    return Section(text, [claim])


def against_pretrained(rows: list[dict[str, Any]]) -> Verdict:
    """By the interval of the pooled difference to the frozen base."""
    pooled = {row["against"]: interval_of(row) for row in rows if row["set"] is None}
    words = "; ".join(
        f"minus {name}: {bounded(pooled[method], '+')}"
        for method, name in PRETRAINED.items()
        if method in pooled
    )
    return clear([pooled[FROZEN_BASE]], words)


def smaller_parts(records: list[Record]) -> Section:
    """Parameters of `vnait` next to a table of positions, and what its smaller parts cost in accuracy."""
    counts = {width: parameters(build("vnait", dim=width)) for width in WIDTHS}
    shares = [100 * count / (ROWS * width) for width, count in counts.items()]
    claims = [
        Judged(
            f"`vnait` has fewer parameters than a table of {ROWS} positions at every width from 64 to 1,024",
            Verdict(
                "confirmed" if max(shares) < 100 else "refuted",
                f"{min(shares):.0f} to {max(shares):.0f} % of the table",
            ),
            "python -m vnait_lab.page",
            source="000, section 4.1",
        ),
        Judged(
            "`vnait-warp` loses no accuracy against the papers' sizes: less than 0.5 points with "
            f"{QUICK} labels per class, pooled over sets, with the recipe of two trainings",
            few_labels.no_loss(where(records, shots=QUICK), "vnait-warp", shots=(QUICK,)),
            "VNAIT_DATA=DIR vnait study few-labels --methods vnait-warp,vnait-paper --seeds 10 --quick --out "
            "studies/records/few_labels_before",
            source="000, section 4.1",
        ),
    ]
    lines = [
        [f"{width:,}", f"{count:,}", f"{parameters(build('vnait-paper', dim=width)):,}", f"{ROWS * width:,}"]
        for width, count in counts.items()
    ]
    heads = ["width", "vnait", "vnait-paper (the papers' sizes)", f"table of {ROWS} rows"]
    return Section(f"## Parameters\n\nCounted on the built modules.\n\n{table(heads, lines)}", claims)
