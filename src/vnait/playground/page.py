"""The playground's page: look at a text through two models, compare methods on a file, read a report."""

from __future__ import annotations

import shutil
import time
from base64 import b64encode
from collections.abc import Iterator, Mapping, Sequence
from html import escape
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import gradio as gr

from vnait import report
from vnait.comparison import DEFAULT_METHODS
from vnait.errors import InputError
from vnait.explanation import output
from vnait.methods import METHODS
from vnait.page.sections import Column, Table
from vnait.playground.comparing import Running
from vnait.playground.shelf import UNTRAINED, Shelf

TEXT = "It is not that the film is bad, it is that nothing in it ever moves."
PAIR = (UNTRAINED.format("vnait"), UNTRAINED.format("alibi"))
NARROW = 6.0  # inches of a picture, so that two fit beside each other
EVERY = 0.5  # seconds between two looks at a comparison that runs
CSS = """
.seen { overflow-x: auto; }
.seen img { max-width: none; min-width: 36em; width: 100%; background: white; }
.problem { border-left: 4px solid #b00020; padding: 0.5em 1em; }
iframe { width: 100%; height: 80vh; border: 1px solid #888; background: white; }
"""


def theme() -> Any:
    """Gradio's own, with the machine's fonts: others would be fetched."""
    return gr.themes.Default(font=["system-ui", "sans-serif"], font_mono=["ui-monospace", "monospace"])


def blocks(shelf: Shelf) -> gr.Blocks:
    """The page on what the shelf holds."""
    with gr.Blocks(title="vnait playground", analytics_enabled=False) as page:
        gr.Markdown(
            "# vnait playground\nWhere is each token, and how is a Transformer told? Nothing leaves this machine."
        )
        with gr.Tab("Look"):
            choices = _look(page, shelf)
        with gr.Tab("Compare"):
            _compare(shelf, choices)
        with gr.Tab("Report"):
            _read(page, shelf)
    return page


def _look(page: gr.Blocks, shelf: Shelf) -> list[gr.Dropdown]:
    text = gr.Textbox(TEXT, label="Text", lines=2, max_lines=6)
    names, choices = list(shelf.models), []
    saved = [name for name in names if name not in map(UNTRAINED.format, METHODS)]
    with gr.Row():
        for name in [*saved[:1], *PAIR][:2]:
            with gr.Column(min_width=360):
                choice = gr.Dropdown(names, value=name, label="Model or method")
                shown = gr.HTML(elem_classes="seen")
                gr.on(
                    [page.load, text.change, choice.change],
                    lambda chosen, given: seen(shelf, chosen, given),
                    [choice, text],
                    [shown],
                    api_visibility="private",
                    trigger_mode="always_last",  # what was typed while a picture was drawn is drawn next
                    concurrency_id="pictures",  # one at a time: matplotlib's settings are the process's
                    show_progress="hidden",
                )
                choices.append(choice)
    page.load(lambda: named(shelf), [], choices, api_visibility="private")  # what was added since the page was built
    return choices


def named(shelf: Shelf) -> list[gr.Dropdown]:
    """Both lists of models, as the shelf is now."""
    return [gr.Dropdown(choices=list(shelf.models)) for _ in range(2)]


def seen(shelf: Shelf, chosen: str, given: str) -> str:
    """The picture and the table of a text's tokens; a sentence where there is none."""
    try:
        found = shelf.explain(chosen, given)
    except InputError as error:
        return _problem(error)
    if isinstance(found, dict):
        return _terms(found)
    data = b64encode(output.png(found, narrow=NARROW)).decode()
    label = escape(f"What {found.method} sees: {output.LABEL}", quote=True)
    said = _said(
        f"{found.label}, with a probability of {found.probability:.3f}; {found.method} has {found.parameters:,} parameters."
    )
    return f'{said}<img src="data:image/png;base64,{data}" alt="{label}">{_table(output.tokens(found))}'


def _terms(facts: Mapping[str, Any]) -> str:
    """A baseline has no coordinates and no attention to draw: its terms and what they add to the label's logit."""
    words = f"{facts['label']}, with a probability of {facts['probability']:.3f}; {facts['method']} has no positions to draw."
    rows = [("bias", facts["bias"]), *facts["terms"].items()]
    return _said(words) + _table(Table(caption="Terms", columns=(Column("term"), Column("adds", "{:+.2f}")), rows=rows))


def _table(table: Table) -> str:
    def row(cells: Sequence[str], tag: str) -> str:
        return "<tr>" + "".join(f"<{tag}>{escape(cell)}</{tag}>" for cell in cells) + "</tr>"

    rows = [[column.shown(cell) for column, cell in zip(table.columns, cells, strict=True)] for cells in table.rows]
    head = row([column.title for column in table.columns], "th")
    return f"<table><thead>{head}</thead><tbody>{''.join(row(cells, 'td') for cells in rows)}</tbody></table>"


def _compare(shelf: Shelf, choices: list[gr.Dropdown]) -> None:
    with gr.Row():
        with gr.Column(min_width=300):
            file = gr.File(label="Labelled texts", file_types=[".csv", ".tsv", ".jsonl", ".parquet"])
            text = gr.Textbox(label="Column of texts", info="text, if nothing is given")
            label = gr.Textbox(label="Column of labels", info="label, if nothing is given")
        with gr.Column(min_width=300):
            methods = gr.Dropdown(list(METHODS), value=list(DEFAULT_METHODS), multiselect=True, label="Methods")
            shots = gr.Textbox("all", label="Labels per class", info="numbers with commas between them, or all")
            seeds = gr.Slider(1, 10, value=2, step=1, label="Seeds")
    with gr.Row():
        start, stop = gr.Button("Compare", variant="primary"), gr.Button("Stop", variant="stop", interactive=False)
    status, result, running = gr.HTML(), gr.HTML(), gr.State()

    def run(data: str | None, *settings: Any) -> Iterator[dict[Any, Any]]:
        if data is None:
            yield {status: _problem("there is no file; put one into the field above.")}
            return
        *others, texts, labels = settings
        started = Running.start(data, *others, text=texts or "text", label=labels or "label")
        shelf.running.append(started)
        try:
            while started.going:
                words = f"{started.done} of {started.total} trainings or fewer are finished."
                yield {status: _said(words, *started.notes), running: started, stop: gr.Button(interactive=True)}
                time.sleep(EVERY)
        finally:  # where the page was closed, too
            started.stop()
            shelf.running.remove(started)
        ended = {running: None, stop: gr.Button(interactive=False)}
        if started.stopped:
            yield {
                status: _said("Stopped; what was finished is kept, and the same comparison goes on from there."),
                **ended,
            }
            return
        if started.process.returncode:
            yield {status: _problem(*started.notes[-1:] or ["the comparison failed without a word."]), **ended}
            return
        shelf.add_comparison(started.out)
        shown = dict(zip(choices, named(shelf), strict=True))
        words = f"Finished; all is in {started.out}, and the winner can be asked under Look."
        yield {status: _said(words, *started.notes), result: reported(started.out), **shown, **ended}

    settings = [file, methods, shots, seeds, text, label]
    start.click(
        run, settings, [status, result, running, stop, *choices], show_progress="hidden", api_visibility="private"
    )
    stop.click(
        lambda started: started and started.stop(), [running], [], show_progress="hidden", api_visibility="private"
    )


def _read(page: gr.Blocks, shelf: Shelf) -> None:
    gr.Markdown("A `report.html` that vnait wrote, or the `records.jsonl` of a comparison or of studies.")
    file = gr.File(label="Report", file_types=[".html", ".jsonl"])
    frame = gr.HTML()
    page.load(lambda: "".join(map(reported, shelf.comparisons[-1:])), [], [frame], api_visibility="private")
    file.change(loaded, [file], [frame], api_visibility="private")


def loaded(path: str | None) -> str:
    """An uploaded report in a frame: as it is, or made from records."""
    if path is None:
        return ""
    if Path(path).suffix == ".html":
        return framed(Path(path))
    with TemporaryDirectory() as folder:
        shutil.copy(path, Path(folder) / "records.jsonl")
        return reported(Path(folder))


def reported(folder: Path) -> str:
    """The report of a folder of records in a frame."""
    try:
        return framed(report.write(folder))
    except InputError as error:
        return _problem(error)


def framed(path: Path) -> str:
    """A page in a frame that can run its scripts and reach nothing else, not even the playground."""
    try:
        inner = escape(path.read_text(encoding="utf-8"), quote=True)
    except (OSError, UnicodeDecodeError) as error:
        return _problem(f"{path.name} can't be read: {error}.")
    return f'<iframe sandbox="allow-scripts" title="Report" srcdoc="{inner}"></iframe>'


def _problem(*sentences: object) -> str:
    return f'<div role="alert" class="problem">{_said(*sentences)}</div>'


def _said(*sentences: object) -> str:
    return "".join(f"<p>{escape(str(sentence))}</p>" for sentence in sentences)
