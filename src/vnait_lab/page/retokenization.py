"""The same texts in the pieces of another tokenizer."""

from __future__ import annotations

from vnait.results.record import Record
from vnait_lab.page.parts import Judged, Section, percent, table
from vnait_lab.runs import by_seed
from vnait_lab.runs.retokenization import ASKS, KNOWN, METHODS_RUN, SEGMENTS, kept, least

COMMAND = "VNAIT_DATA=DIR python -m vnait_lab.runs.retokenization"
SOURCE = "this project, another tokenizer"
QUESTIONS = {
    "third": "the third of the words in which a mark stands",
    "moved": "whether halves were exchanged",
}


def section(found: list[Record]) -> Section:
    claims, tables = [], []
    for name in ASKS:
        own = [one for one in found if one.data["name"] == name]
        for statement, judge in (
            ("`vnait` loses less than `sinusoidal`, `rope` and `alibi` if letters are counted", least),
            ("known places in words keep every method within two points", kept),
        ):
            claims.append(
                Judged(
                    f"Trained on words and read in letters, {statement}: {QUESTIONS[name]}",
                    judge(own),
                    COMMAND,
                    source=SOURCE,
                )
            )
        tables.append(f"### {name}: {QUESTIONS[name]}\n\n{by_method(own)}")
    text = f"""## Another tokenizer

AG News: texts of up to 60 words, in pieces of a byte pair encoding. Models learn from whole words (all of its
merges) and read words, pieces (the first {SEGMENTS["pieces"]} merges) and letters (none). Pieces are counted,
as in training, or their places are known: the last piece of a word at the word's number. Accuracy in % on
1,000 test texts, mean over seeds with its 95 % interval. Command: `{COMMAND}`."""
    return Section("\n\n".join([text, *tables]), claims)


def by_method(found: list[Record]) -> str:
    columns = [(segments, known) for segments in SEGMENTS for known in KNOWN]
    lines = [
        [
            method,
            *(
                percent(by_seed(found, method, f"accuracy_{segments}_{known}").values())
                for segments, known in columns
            ),
        ]
        for method in METHODS_RUN
    ]
    return table(["method", *(f"{segments}, {known}" for segments, known in columns)], lines)
