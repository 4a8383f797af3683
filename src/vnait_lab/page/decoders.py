"""Perplexity of decoders by position, past their training length."""

from __future__ import annotations

import itertools
from statistics import fmean

from vnait.results.record import Record
from vnait_lab.page.parts import Section, table
from vnait_lab.runs.decoder import COMPARED, EDGES, READ, TRAINED, WORDS


def section(found: list[Record]) -> Section:
    spans = list(itertools.pairwise(EDGES))
    lines: list[list[object]] = []
    for name in dict.fromkeys(str(one.data["name"]) for one in found):
        for method in COMPARED:
            own = [one for one in found if one.data["name"] == name and one.method == method]
            if own:
                means = (fmean(one.metrics[f"far_{low}_{high}"] for one in own) for low, high in spans)
                ratio = fmean(one.metrics["far_512_1024"] / one.metrics["fresh_512_1024"] for one in own)
                lines.append([name, method, len(own), *(f"{mean:.2f}" for mean in means), f"{ratio:.2f}"])
    run = found[0].run
    heads = ["text", "method", "seeds", *(f"{low} to {high}" for low, high in spans), "last / fresh"]
    text = f"""## Decoders past their training length

`VnaitForCausalLM` of {run["num_hidden_layers"]} layers of width {run["hidden_size"]}, {run["steps"]:,} steps
of {run["batch"]} windows of {TRAINED} tokens. Perplexity by position in windows of {READ:,}
tokens of the test text: letters of tinyshakespeare, and words of wikitext2 (the {WORDS:,} most
frequent). The last column is the perplexity past 512 over that of the same tokens in fresh windows of
{TRAINED}; it is 1 if reading on does no harm. `lpi` has the running coordinate (with rotary angles),
`vnait-causal` the saturating one, `prefix` the share of the prefix. Command:
`VNAIT_DATA=DIR python -m vnait_lab.runs.decoder`.

{table(heads, lines)}"""
    return Section(text)
