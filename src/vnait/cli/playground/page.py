"""The page of the playground: explain a text with two models, compare methods on a file, read a report."""

import re
import shutil
import time
from base64 import b64encode
from collections.abc import Iterator
from html import escape
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import gradio as gr
from jinja2 import Environment

from vnait.cli.playground.process import ComparisonProcess
from vnait.cli.playground.registry import UNTRAINED, Shelf
from vnait.comparison.compare import DEFAULT_METHODS
from vnait.positions.methods import METHODS
from vnait.results import report
from vnait.results.explanation import export
from vnait.results.page import policy
from vnait.results.page.sections import Column, Table
from vnait.shared.errors import InputError

TEXT = "It is not that the film is bad, it is that nothing in it ever moves."
PAIR = (UNTRAINED.format("vnait"), UNTRAINED.format("alibi"))
NARROW = 6.0  # inches of a picture, so that two fit side by side
POLL_SECONDS = 0.5  # seconds between updates on a running comparison
AT_ONCE = 2  # comparisons; more would only slow each other
LINK = re.compile("<link", re.IGNORECASE)  # could open a connection, which no policy forbids
CSS = """
.explanation { overflow-x: auto; }
.explanation img { max-width: none; min-width: 36em; width: 100%; background: white; }
.problem { border-left: 4px solid #b00020; padding: 0.5em 1em; }
iframe { width: 100%; height: 80vh; border: 1px solid #888; background: white; }
"""
EXPLANATION = Environment(autoescape=True, trim_blocks=True).from_string("""\
<p>{{ words }}</p>
{% if image %}<img src="data:image/png;base64,{{ image }}" alt="{{ label }}">{% endif %}
<table>
<thead><tr>{% for column in table.columns %}<th>{{ column.title }}</th>{% endfor %}</tr></thead>
<tbody>
{% for row in table.rows %}
<tr>{% for cell in row %}<td>{{ table.columns[loop.index0].format(cell) }}</td>{% endfor %}</tr>
{% endfor %}
</tbody>
</table>""")


def theme() -> Any:
    """The default theme, with local fonts: gradio would fetch others."""
    return gr.themes.Default(font=["system-ui", "sans-serif"], font_mono=["ui-monospace", "monospace"])


def blocks(shelf: Shelf) -> gr.Blocks:
    """The whole page."""
    with gr.Blocks(title="vnait playground", analytics_enabled=False) as page:
        gr.Markdown(
            "# vnait playground\nHow do models use the position of each word? Nothing leaves this machine."
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
                gr.on(
                    [page.load, text.change, choice.change],
                    lambda model, words: explanation(shelf, model, words),
                    [choice, text],
                    [gr.HTML(elem_classes="explanation")],
                    api_visibility="private",
                    trigger_mode="always_last",  # text typed while a picture is drawn is drawn next
                    concurrency_id="pictures",  # one at a time: matplotlib's settings are global
                    show_progress="hidden",
                )
                choices.append(choice)
    # Models may have been added since the page was built.
    page.load(lambda: model_lists(shelf), [], choices, api_visibility="private")
    return choices


def model_lists(shelf: Shelf) -> list[gr.Dropdown]:
    """Both lists of models, updated from the shelf."""
    return [gr.Dropdown(choices=list(shelf.models)) for _ in range(2)]


def explanation(shelf: Shelf, model: str, text: str) -> str:
    """The picture and the table of the tokens, as HTML; or the reason why there is none."""
    try:
        found = shelf.explain(model, text)
    except InputError as error:
        return _alert(error)
    if isinstance(found, dict):  # a baseline
        answer = f"{found['label']}, with a probability of {found['probability']:.3f}"
        words = f"{answer}; {found['method']} has no positions to draw."
        rows = [("bias", found["bias"]), *found["terms"].items()]
        columns = (Column("term"), Column("adds", "{:+.2f}"))
        return EXPLANATION.render(words=words, table=Table(caption="Terms", columns=columns, rows=rows))
    return EXPLANATION.render(
        words=f"{found.label}, with a probability of {found.probability:.3f}; {found.method} has "
        f"{found.parameters:,} parameters.",
        image=b64encode(export.png(found, narrow=NARROW)).decode(),
        label=f"{found.method}: {export.LABEL}",
        table=export.token_table(found),
    )


def _compare(shelf: Shelf, choices: list[gr.Dropdown]) -> None:
    with gr.Row():
        with gr.Column(min_width=300):
            file = gr.File(label="Labelled texts", file_types=[".csv", ".tsv", ".jsonl", ".parquet"])
            text = gr.Textbox(label="Column of texts", info="empty: text")
            label = gr.Textbox(label="Column of labels", info="empty: label")
        with gr.Column(min_width=300):
            defaults = list(DEFAULT_METHODS)
            methods = gr.Dropdown(list(METHODS), value=defaults, multiselect=True, label="Methods")
            shots = gr.Textbox("all", label="Labels per class", info="numbers, separated by commas, or all")
            seeds = gr.Slider(1, 10, value=2, step=1, label="Seeds")
    with gr.Row():
        start = gr.Button("Compare", variant="primary")
        stop = gr.Button("Stop", variant="stop", interactive=False)
    status, result, running = gr.HTML(), gr.HTML(), gr.State()

    def run(data: str | None, *settings: Any) -> Iterator[dict[Any, Any]]:
        if data is None:
            yield {status: _alert("there is no file; upload one in the field above.")}
            return
        if len(shelf.running) >= AT_ONCE:
            words = f"{AT_ONCE} comparisons are running here already; start this one when one of them ends."
            yield {status: _alert(words)}
            return
        *others, texts, labels = settings
        started = ComparisonProcess.start(data, *others, text=texts or "text", label=labels or "label")
        shelf.running.append(started)
        try:
            while started.running:
                words = f"{started.done} of at most {started.total} trainings are finished."
                yield {
                    status: _paragraphs(words, *started.notes),
                    running: started,
                    stop: gr.Button(interactive=True),
                }
                time.sleep(POLL_SECONDS)
        finally:  # also if the page was closed
            started.stop()
            shelf.running.remove(started)
        ended = {running: None, stop: gr.Button(interactive=False)}
        if started.stopped:
            words = "Stopped; finished trainings are kept, and the same comparison resumes from them."
            yield {status: _paragraphs(words), **ended}
        elif started.process.returncode:
            reason = started.notes[-1:] or ["the comparison failed without a message."]
            yield {status: _alert(*reason), **ended}
        else:
            shelf.add_comparison(started.out)
            lists = dict(zip(choices, model_lists(shelf), strict=True))
            words = f"Finished; all results are in {started.out}, and the best model is listed under Look."
            frame = report_frame(started.out)
            yield {status: _paragraphs(words, *started.notes), result: frame, **lists, **ended}

    start.click(
        run,
        [file, methods, shots, seeds, text, label],
        [status, result, running, stop, *choices],
        concurrency_limit=None,  # else one comparison would hold up those of all other users
        show_progress="hidden",
        api_visibility="private",
    )
    stop.click(
        lambda started: started and started.stop(),
        [running],
        [],
        show_progress="hidden",
        api_visibility="private",
    )


def _read(page: gr.Blocks, shelf: Shelf) -> None:
    gr.Markdown("A `report.html` that vnait wrote, or the `records.jsonl` of a comparison or of studies.")
    file = gr.File(label="Report", file_types=[".html", ".jsonl"])
    frame = gr.HTML()
    page.load(
        lambda: "".join(map(report_frame, shelf.comparisons[-1:])), [], [frame], api_visibility="private"
    )
    file.change(uploaded_report, [file], [frame], api_visibility="private")


def uploaded_report(path: str | None) -> str:
    """An uploaded report in a frame, made from records if it is not a page yet."""
    if path is None:
        return ""
    if Path(path).suffix == ".html":
        return _frame(Path(path))
    with TemporaryDirectory() as folder:
        shutil.copy(path, Path(folder) / "records.jsonl")
        return report_frame(Path(folder))


def report_frame(folder: Path) -> str:
    """The report of a folder of records in a frame."""
    try:
        return _frame(report.write(folder))
    except InputError as error:
        return _alert(error)


def _frame(path: Path) -> str:
    """A page in a frame that runs no scripts but ours, and reaches neither the playground nor any address."""
    try:
        written = LINK.sub("<no-link", path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError) as error:
        return _alert(f"{path.name} can't be read: {error}.")
    # Before all else in the page: it may come from anybody, and what it says of itself binds nobody.
    first = f'<!doctype html><meta http-equiv="Content-Security-Policy" content="{policy()}">'
    inner = escape(first + written, quote=True)
    return f'<iframe sandbox="allow-scripts" title="Report" srcdoc="{inner}"></iframe>'


def _alert(*sentences: object) -> str:
    return f'<div role="alert" class="problem">{_paragraphs(*sentences)}</div>'


def _paragraphs(*sentences: object) -> str:
    return "".join(f"<p>{escape(str(sentence))}</p>" for sentence in sentences)
