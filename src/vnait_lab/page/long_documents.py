"""Documents longer than a pretrained BERT's table of positions."""

from __future__ import annotations

from vnait.positions.methods import OWN
from vnait.results.record import Record
from vnait_lab.page.parts import Section, difference, over_seeds, percent, table

COLUMNS = {
    "accuracy_alone": "articles alone",
    "accuracy_long": "in 1,900 tokens",
    "accuracy_windows": "in 1,900 tokens, by windows of 512",
    "accuracy_articles": "long articles",
}


def section(found: list[Record]) -> Section:
    by_method = {
        method: [one for one in found if one.method == method]
        for method in dict.fromkeys(one.method for one in found)
    }
    lines: list[list[object]] = []
    for method, own in by_method.items():
        shown = (percent([one.metrics[metric] for one in own]) for metric in COLUMNS)
        minus = "" if method == OWN else difference(long(own), long(by_method[OWN]))
        lines.append([method, len(own), *shown, minus])
    run = found[0].run
    text = f"""## Documents longer than the base's table of positions

The same BERT, fine-tuned with {found[0].data["shots"]} labels per class on documents of up to
{run["max_length"]} tokens ({run["steps"]} steps of {run["batch_size"]}): the first 120 words of a BBC News
article at a random place among paragraphs of WikiText-2. Accuracy in %: on 150 such beginnings alone; on the
same in documents of about 1,900 tokens, whole or by windows of 512 tokens, of which the surest decides; and
on {found[0].data["articles"]} whole articles longer than 512 tokens. `own` reads at most 512 tokens, an
attached method 2,048. The last column is the paired difference in 1,900 tokens. Command:
`VNAIT_DATA=DIR python -m vnait_lab.runs.long_documents MODEL_FOLDER --methods own,vnait-warp`.

{table(["positions", "seeds", *COLUMNS.values(), "minus own"], lines)}"""
    return Section(text)


def long(found: list[Record]) -> dict[int, float]:
    """Accuracy in 1,900 tokens, by seed."""
    return over_seeds(found, lambda one: one.metrics["accuracy_long"])
