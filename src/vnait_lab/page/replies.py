"""Documents with repeated headers and quoted replies."""

from __future__ import annotations

from vnait.results.record import Record
from vnait_lab.page.parts import Judged, Section, percent, table
from vnait_lab.runs.insertions import FILTERED
from vnait_lab.runs.replies import TASK, TESTS, lost, verdict
from vnait_lab.suites.elastic import reads_words

COMMAND = "VNAIT_DATA=DIR python -m vnait_lab.runs.replies"


def section(found: list[Record]) -> Section:
    claims = [
        Judged(
            f"On articles with {kind} of up to three times their length, `vnait` loses at most a third of "
            "what the best method of the raw index loses",
            verdict(found, f"{kind}_more"),
            COMMAND,
            source="001, robustness",
        )
        for kind in ("headers", "quotes")
    ]
    text = f"""## Headers and quoted replies

AG News, articles of up to 60 words in lines of ten: in which third of its own words does a mark stand?
Headers are a repeated line, at even distances; quotes are lines of other articles in one block, each after a
">". Trained on articles as they are, with headers, or with quotes, of up to half of their length (seen);
more: up to three times. Accuracy in % on 1,000 test articles, mean over seeds with its 95 % interval; the
last columns are clean minus more, paired by seed; chance is 33. `filtered` is `vnait-uniform` where
everything inserted was removed by hand. Coordinates of the methods marked * read the words. Command:
`{COMMAND}`.

{by_arm(found)}"""
    return Section(text, claims)


def by_arm(found: list[Record]) -> str:
    rows: list[list[object]] = []
    for method, task in dict.fromkeys((one.method, str(one.data["name"])) for one in found):
        own = [one for one in found if (one.method, one.data["name"]) == (method, task)]
        shown = FILTERED if task == FILTERED else f"{method} *" if reads_words(method) else method
        scores = [percent(one.metrics[f"accuracy_{test}"] for one in own) for test in TESTS]
        losses = (
            [percent(lost(found, method, f"{kind}_more").values(), "+") for kind in ("headers", "quotes")]
            if task == TASK
            else ["", ""]
        )
        rows.append([shown, len(own), *scores, *losses])
    names = [test.replace("_", ", ") for test in TESTS]
    return table(["method", "seeds", *names, "lost by headers", "lost by quotes"], rows)
