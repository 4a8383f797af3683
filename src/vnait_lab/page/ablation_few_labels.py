"""`vnait-warp` and `vnait` without one of their parts, on few labels."""

from __future__ import annotations

from vnait.results.record import Record
from vnait.train.baselines import BASELINES
from vnait_lab.page.parts import Section, difference, mean, table
from vnait_lab.runs.ablation import OF
from vnait_lab.suites.few_labels import score_of


def section(found: list[Record]) -> Section:
    sets = list(dict.fromkeys(str(one.data["name"]) for one in found))
    scores: dict[tuple[str, str], dict[int, float]] = {}
    for one in found:
        scores.setdefault((str(one.data["name"]), one.method), {})[one.seed] = score_of(one)
    lines: list[list[object]] = []
    first, *_ = OF  # the method that the controls are paired with
    whole_of = {arm: whole for whole, arms in OF.items() for arm in (whole, *arms)}
    for arm in (*BASELINES, "none", *whole_of):
        if any(one.method == arm for one in found):
            whole = whole_of.get(arm, first)
            line: list[object] = [arm]
            for name in sets:
                by_seed = scores.get((name, arm), {})
                minus = "" if arm == whole else difference(by_seed, scores[name, whole])
                line += [len(by_seed), mean(by_seed.values()), minus]
            lines.append(line)
    heads = [head for name in sets for head in ("draws", name, "minus the whole")]
    shots = " and ".join(map(str, sorted({one.data["shots"] for one in found})))
    text = f"""## Ablation of `vnait-warp` and `vnait` on few labels

{shots} labels per class, in the setting of the few-label suite, tested on 30 % of train.csv, which each draw
holds out; paired differences with their 95 % interval over draws. Command:
`VNAIT_DATA=DIR python -m vnait_lab.runs.ablation --sets {",".join(sets)} --seeds 10`.

{table(["arm", *heads], lines)}"""
    return Section(text)
