"""Parts of speech from few sentences."""

from __future__ import annotations

from vnait.results.record import Record
from vnait.train.baselines import OF_TAGS
from vnait_lab.page.parts import Judged, Section, percent, table
from vnait_lab.runs import by_seed
from vnait_lab.runs.tagging import METHODS_RUN, RUN, SHUFFLED, SIZES, verdict

COMMAND = "VNAIT_DATA=DIR python -m vnait_lab.runs.tagging"


def section(found: list[Record]) -> Section:
    claims = [
        Judged(
            f"From {sizes[0]:,} to {sizes[-1]:,} sentences of {name}, `vnait` tags words better than `none`, "
            "`sinusoidal` and `rope`",
            verdict(found, name),
            COMMAND,
            source="000, section 5.1, parts of speech",
        )
        for name, sizes in SIZES.items()
    ]
    text = f"""## Parts of speech from few sentences

Token accuracy in % on the test sentences after {RUN.steps} steps, mean over draws of sentences with its 95 %
interval. Shuffled: the words of each sentence, with their tags, in random order, in training and test.
Command: `{COMMAND}`."""
    return Section("\n\n".join([text, *(by_method(found, name) for name in SIZES)]), claims)


def by_method(found: list[Record], name: str) -> str:
    lines = [
        [
            method + words,
            *(
                percent(by_seed(found, method, "token_accuracy", name=name + words, shots=size).values())
                for size in SIZES[name]
            ),
        ]
        for words in ("", SHUFFLED)
        for method in (*OF_TAGS, *METHODS_RUN)
    ]
    return f"### {name}\n\n{table(['method', *(f'{size:,} sentences' for size in SIZES[name])], lines)}"
