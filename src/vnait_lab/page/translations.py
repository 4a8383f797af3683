"""Is the second text the translation of the first?"""

from __future__ import annotations

from vnait.results.record import Record
from vnait.train.baselines import BASELINES
from vnait_lab.page.parts import Judged, Section, percent, table
from vnait_lab.runs import by_seed
from vnait_lab.runs.translations import FILES, METHODS_RUN, RUN, verdict

COMMAND = "VNAIT_DATA=DIR python -m vnait_lab.runs.translations"
LANGUAGES = {"wordalign_enfr": "English-French", "wordalign_jaen": "Japanese-English"}


def section(found: list[Record]) -> Section:
    claims = [
        Judged(
            f"`vnait` recognizes {LANGUAGES[name]} translations better than bags of words, `none`, "
            "`sinusoidal` and `vnait-uniform`",
            verdict(found, name),
            COMMAND,
            source="this project, pairs of texts",
        )
        for name in FILES
    ]
    lines = [
        [method, *(percent(by_seed(found, method, "accuracy", name=name).values()) for name in FILES)]
        for method in (*BASELINES, *METHODS_RUN)
    ]
    text = f"""## Pairs of sentences: is the second the translation of the first?

Accuracy in % on 30 % of the pairs after {RUN.steps} steps, mean over draws with its 95 % interval; chance
is 50. Each sentence is there with its translation, and with that of another sentence of its length.
Command: `{COMMAND}`.

{table(["method", *LANGUAGES.values()], lines)}"""
    return Section(text, claims)
