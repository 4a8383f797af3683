"""Few labels after learning from texts without labels."""

from __future__ import annotations

from vnait.results.record import Record
from vnait_lab.page.parts import Judged, Section, percent, table
from vnait_lab.runs.self_supervision import HIDDEN, MOVED, QUESTIONS, SHOTS, STEPS, verdict
from vnait_lab.suites.few_labels import score_of

COMMAND = "VNAIT_DATA=DIR python -m vnait_lab.runs.self_supervision"


def section(found: list[Record]) -> Section:
    sets = list(dict.fromkeys(str(one.data["name"]) for one in found))
    claims = [
        Judged(
            f"On {name} `vnait` with {SHOTS} labels per class is better by a point or more if it has first "
            "learned structure from the set's texts without labels",
            verdict(found, name),
            COMMAND,
            source="000, section 2.2, self-supervision",
        )
        for name in sets
    ]
    text = f"""## Structure from texts without labels

Accuracy in % on test.csv with {SHOTS} labels per class, mean over draws of rows with its 95 % interval.
Before it, {STEPS:,} steps on all texts of train.csv, without labels. Masked words: {HIDDEN:.0%} of the words
are to be found. Moved words: in {MOVED:.0%} of the texts two spans have changed places, and which words have
is to be found. All models have the Word2Vec vectors of the same texts. Command: `{COMMAND}`."""
    return Section("\n\n".join([text, *(f"### {name}\n\n{by_method(found, name)}" for name in sets)]), claims)


def by_method(found: list[Record], name: str) -> str:
    own = [one for one in found if one.data["name"] == name]
    lines: list[list[object]] = [
        [
            method,
            *(
                percent(
                    score_of(one) for one in own if one.method == method and one.data["question"] == question
                )
                for question in QUESTIONS
            ),
        ]
        for method in dict.fromkeys(one.method for one in own)
    ]
    return table(["method", *QUESTIONS], lines)
