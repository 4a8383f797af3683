"""Articles of twice the training length."""

from __future__ import annotations

from vnait.results.record import Record
from vnait_lab.page.parts import Judged, Section, percent, table
from vnait_lab.runs import by_seed
from vnait_lab.runs.longer_articles import METHODS_RUN, READ, RUN, TRAINED, verdict

COMMAND = "VNAIT_DATA=DIR python -m vnait_lab.runs.longer_articles"


def section(found: list[Record]) -> Section:
    claim = Judged(
        f"Trained on articles of up to {TRAINED} words, `vnait` finds at {READ} words whether their halves "
        "are in order better than `none`, `sinusoidal`, `rope` and `vnait-uniform`",
        verdict(found),
        COMMAND,
        source="000, section 4.2, twice the length",
    )
    lines = [
        [
            method,
            *(percent(by_seed(found, method, f"accuracy_{length}").values()) for length in (TRAINED, READ)),
        ]
        for method in METHODS_RUN
    ]
    text = f"""## Articles of twice the training length

BBC News: are the halves of a text in order? Accuracy in % on test articles of {READ} words and more, cut to
{TRAINED} and to {READ}, after {RUN.steps} steps of {RUN.batch_size} on articles of up to {TRAINED} words;
mean over draws of rows with its 95 % interval; chance is 50. Command: `{COMMAND}`.

{table(["method", f"{TRAINED} words", f"{READ} words"], lines)}"""
    return Section(text, [claim])
