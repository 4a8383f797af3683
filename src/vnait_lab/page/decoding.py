"""Causal methods on the decoding suite."""

from __future__ import annotations

from vnait.results.record import Record
from vnait_lab.page.parts import Judged, Section, table, with_commas
from vnait_lab.suites import decoding
from vnait_lab.suites.questions import QUESTIONS
from vnait_lab.suites.suite import run_by_all


def section(found: list[Record]) -> Section:
    everything = decoding.SUITE.summary(found)
    scores = run_by_all(everything)
    overall = decoding.overall(scores)
    methods = [standing.method for standing in overall]
    claim = Judged(
        "Among decoders that answer longer questions than they were trained on, `vnait-causal` has the "
        "highest mean reciprocal rank",
        decoding.verdict(everything, "vnait-causal"),
        f"vnait study decoding --methods {with_commas(methods)} --seeds 3 --out studies/records/decoding",
        source="000, section 5.2, decoders",
    )
    tasks = list(dict.fromkeys(score.task for score in scores))
    cells = {
        (one.task, one.method): f"{100 * one.mean('exact_far'):.0f} ({100 * one.mean('exact_near'):.0f})"
        for one in scores
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
