"""Real texts into which things were inserted that don't count."""

from __future__ import annotations

from vnait.results.record import Record
from vnait_lab.page.parts import Judged, Section, percent, table
from vnait_lab.runs.insertions import HARMED, HARMS, KINDS, METHODS_RUN, TESTS, TRAINED, drop, verdict
from vnait_lab.suites.elastic import reads_words


def section(found: list[Record]) -> Section:
    run = found[0].run
    sets = list(dict.fromkeys(str(one.data["name"]) for one in found))
    command = f"VNAIT_DATA=DIR python -m vnait_lab.runs.insertions --sets {','.join(sets)}"
    claims = []
    for name in sets:
        own = [one for one in found if one.data["name"] == name]
        claims += [
            Judged(
                f"On {name} with insertions of three times its length, `vnait` loses at most a third of "
                "what the best method of the raw index loses",
                verdict(own, "vnait", ["more"], 1 / 3),
                command,
                source="001, robustness",
            ),
            Judged(
                f"On {name} with {HARMED:.0%} of the tokens mistyped or dropped, `vnait` loses less than "
                "the best method of the raw index",
                verdict(own, "vnait", list(HARMS), 1),
                command,
                source="001, robustness",
            ),
        ]
    text = f"""## Real texts with insertions

Trained for {run["steps"]:,} steps on a random 80 % of the rows, into which up to {TRAINED[0]:.0%} of a text's
length was inserted; accuracy in % on test.csv as it is (clean), with as much inserted (seen), up to three
times the text (more), and other kinds (unseen), mean over draws with its 95 % interval. The last column is
clean minus more, paired by draw. Insertions are gaps, `-`, in splice junctions, in runs or (unseen) one by
one; elsewhere {", ".join(KINDS)}. Typos and dropped tokens are {HARMED:.0%} of a clean text's.
`filtered` is `vnait-uniform` where every insertion was removed by hand.
Coordinates of the methods marked * read the words. Command: `{command}`."""
    return Section("\n\n".join([text, *(f"### {name}\n\n{by_arm(found, name)}" for name in sets)]), claims)


def by_arm(everything: list[Record], name: str) -> str:
    found = [one for one in everything if one.data["name"] == name]
    arms = {one.method for one in found}
    lines: list[list[object]] = []
    for arm in (*METHODS_RUN, *sorted(arms - set(METHODS_RUN))):
        if own := [one for one in found if one.method == arm]:
            shown = arm if arm == "filtered" or not reads_words(arm) else f"{arm} *"
            scores = [percent(one.metrics[f"accuracy_{kind}"] for one in own) for kind in (*TESTS, *HARMS)]
            lines.append([shown, len(own), *scores, percent((drop(one, "more") for one in own), "+")])
    return table(["method", "draws", *TESTS, *HARMS, "clean minus more"], lines)
