"""Trainings on few labels: the papers' choices, steps to converge, self-supervision, a pretrained BERT."""

from __future__ import annotations

from vnait.positions.methods import BASE_POSITIONS
from vnait.results.record import Record
from vnait_lab.page.parts import (
    Judged,
    Section,
    bounded,
    difference,
    grid,
    judge,
    per_name,
    percent,
    prose,
    scored,
    table,
)
from vnait_lab.records import by_method, values_of, where
from vnait_lab.runs import ahead, choices, convergence, self_supervision
from vnait_lab.suites.few_labels import SETS, score_of


def of_choices(records: list[Record]) -> Section:
    """Which of the papers' choices matter."""
    command = "VNAIT_DATA=DIR python -m vnait_lab.runs.choices"
    shots = choices.SHOTS
    drawn = {str(record.data["name"]) for record in records if record.method in choices.design()}
    sets = [name for name in SETS if name in drawn]
    claim = Judged(
        f"With {shots} labels per class none of the papers' choices of layers, width, activation, "
        "relation, vectors, smoothness and bounds changes the accuracy of `vnait-paper` by "
        f"{100 * choices.ENOUGH:g} point or more, on {', '.join(sets)}",
        choices.verdict(records),
        command,
        source="000, sections 3.4 to 3.9, choices",
    )
    effects = [choices.effects(records), *(choices.effects(where(records, name=name)) for name in sets)]
    lines = [
        [factor, *levels, *(bounded(effect.get(factor), "+") for effect in effects)]
        for factor, levels in choices.FACTORS.items()
    ]
    text = prose(
        "choices",
        shots=shots,
        command=command,
        table=table(["choice", "from", "to", "all sets", *sets], lines),
    )
    return Section(text, [claim])


def of_convergence(records: list[Record]) -> Section:
    """How many steps a method needs."""
    command = "VNAIT_DATA=DIR python -m vnait_lab.runs.convergence"
    sets = values_of(records, "name")
    shots, enough = convergence.SHOTS, convergence.ENOUGH
    claim = Judged(
        f"With {shots} labels per class `vnait` converges in fewer steps than `none`, `sinusoidal`, `rope` "
        f"and `alibi`, on {', '.join(sets)}",
        convergence.verdict(records, "vnait"),
        command,
        source="001, data efficiency, convergence",
    )
    text = prose("convergence", shots=shots, enough=enough, command=command)
    return Section(per_name(text, sets, lambda name: by_steps(where(records, name=name))), [claim])


def by_steps(records: list[Record]) -> str:
    curves: dict[str, list[dict[int, float]]] = {}
    for (_, method, _), curve in convergence.curves(records).items():
        curves.setdefault(method, []).append(curve)
    lines: list[list[object]] = []
    for method, draws in curves.items():
        scores = [percent(curve[steps] for curve in draws) for steps in convergence.STEPS]
        needed = [convergence.steps_to(convergence.ENOUGH * max(curve.values()), curve) for curve in draws]
        lines.append([method, *scores, round(2 ** (sum(needed) / len(needed)))])
    return table(["method", *(f"{steps} steps" for steps in convergence.STEPS), "steps to 95 %"], lines)


def of_self_supervision(records: list[Record]) -> Section:
    """Few labels after learning from texts without labels."""
    command = "VNAIT_DATA=DIR python -m vnait_lab.runs.self_supervision"
    shots, questions = self_supervision.SHOTS, {question: question for question in self_supervision.QUESTIONS}
    sets = values_of(records, "name")
    verdicts = {
        f"On {name} `vnait` with {shots} labels per class is better by a point or more if it has first "
        "learned structure from the set's texts without labels": self_supervision.verdict(records, name)
        for name in sets
    }
    claims = judge(verdicts, command, source="000, section 2.2, self-supervision")
    text = prose("self_supervision", shots=shots, run=self_supervision, command=command)

    def by_question(name: str) -> str:
        runs = where(records, name=name)
        return grid(
            "method",
            values_of(runs, "method"),
            questions,
            lambda method, question: scored(runs, score_of, method=method, question=question),
        )

    return Section(per_name(text, sets, by_question), claims)


def of_fine_tuning(records: list[Record]) -> Section:
    """A pretrained BERT fine-tuned on few labels, with its own positions and with others."""
    command = (
        "VNAIT_DATA=DIR python -m vnait_lab.runs.fine_tuning MODEL_FOLDER --methods own,vnait-warp,rope,alibi"
    )
    methods = values_of(records, "method")
    others = [method for method in methods if method != BASE_POSITIONS]
    drawn = sorted({(str(record.data["name"]), int(record.data["shots"])) for record in records})
    lines: list[list[object]] = []
    for name, shots in drawn:
        scores = by_method(records, score_of, methods, name=name, shots=shots)
        base = scores[BASE_POSITIONS]
        minus = [difference(scores[method], base) for method in others if scores[method]]
        lines.append(
            [name, shots, len(base), *(percent(values.values()) for values in scores.values()), *minus]
        )
    run = max((record.run for record in records), key=lambda run: int(run["max_length"]))
    heads = ["set", "labels per class", "seeds", *methods, *(f"{method} minus own" for method in others)]
    text = prose("fine_tuning", run=run, command=command, table=table(heads, lines))
    pooled = by_method(records, score_of, methods)
    names = ", ".join(dict.fromkeys(name for name, _ in drawn))
    verdicts = {
        f"Fine-tuned on few labels, a pretrained BERT is better with `vnait-warp` than with {with_what}, "
        f"pooled over {names}": ahead({name: pooled[name] for name in ("vnait-warp", *rivals)}, "vnait-warp")
        for with_what, rivals in (
            ("its own positions", [BASE_POSITIONS]),
            ("`rope` or `alibi`, which don't start as its own do", ["rope", "alibi"]),
        )
    }
    claims = judge(verdicts, command, source="000, section 5.2, fine-tuning")
    return Section(text, claims)
