"""The page of the playground: explain a text with two models, side by side, while it is typed."""

from base64 import b64encode
from html import escape
from typing import Any

import gradio as gr
from jinja2 import Environment

from vnait.cli.playground.registry import UNTRAINED, Registry
from vnait.results.drawing import png
from vnait.results.explanation import export, simple
from vnait.results.explanation.display import ADDS, EQUAL
from vnait.results.explanation.figure import figure
from vnait.shared.errors import InputError

TEXT = "It is not that the film is bad, it is that nothing in it ever moves."
PAIR = (UNTRAINED.format("vnait"), UNTRAINED.format("alibi"))
NARROW = 6.0  # inches of a picture, so that two fit side by side
CSS = """
.explanation { overflow-x: auto; }
.explanation img { max-width: none; min-width: 36em; width: 100%; background: white; }
.problem { border-left: 4px solid #b00020; padding: 0.5em 1em; }
"""
EXPLANATION = Environment(autoescape=True, trim_blocks=True).from_string("""\
<p>{{ words }}</p>
<img src="data:image/png;base64,{{ image }}" alt="{{ label }}">
{% for table in tables %}
<table>
<thead><tr>{% for column in table.columns %}<th>{{ column.title }}</th>{% endfor %}</tr></thead>
<tbody>
{% for row in table.rows %}
<tr>{% for cell in row %}<td>{{ table.columns[loop.index0].format(cell) }}</td>{% endfor %}</tr>
{% endfor %}
</tbody>
</table>
{% endfor %}""")


def theme() -> Any:
    """The default theme, with local fonts: gradio would fetch others."""
    return gr.themes.Default(font=["system-ui", "sans-serif"], font_mono=["ui-monospace", "monospace"])


def blocks(registry: Registry) -> gr.Blocks:
    """The whole page."""
    with gr.Blocks(title="vnait playground", analytics_enabled=False) as page:
        gr.Markdown(
            "# vnait playground\nHow do models use the position of each word? Nothing leaves this machine."
        )
        text = gr.Textbox(TEXT, label="Text", lines=2, max_lines=6)
        with gr.Row():
            for name in [*list(registry.saved)[:1], *PAIR][:2]:
                with gr.Column(min_width=360):
                    choice = gr.Dropdown(registry.names, value=name, label="Model or method")
                    gr.on(
                        [page.load, text.change, choice.change],
                        lambda model, words: explanation(registry, model, words),
                        [choice, text],
                        [gr.HTML(elem_classes="explanation")],
                        api_visibility="private",
                        trigger_mode="always_last",  # text typed while a picture is drawn is drawn next
                        concurrency_id="pictures",  # one at a time: matplotlib's settings are global
                        show_progress="hidden",
                    )
    return page


def explanation(registry: Registry, model: str, text: str) -> str:
    """The picture and the table of the tokens, as HTML; or the reason why there is none."""
    try:
        result = registry.explain(model, text)
    except InputError as error:
        return f'<div role="alert" class="problem"><p>{escape(str(error))}</p></div>'
    if isinstance(result, dict):  # a simple model
        return EXPLANATION.render(
            words=f"{result['label']}, with a probability of {result['probability']:.3f}; {result['method']} "
            f"has no positions to draw. adds: {result['by']}.",
            image=b64encode(png(simple.figure(result))).decode(),
            label=f"{result['method']}: {simple.LABEL}",
            tables=[simple.token_table(result), simple.term_table(result)],
        )
    adds = "" if result.constant is None else f" adds: {ADDS}, {result.constant:+.2f}."
    gaps = f" Gaps: {EQUAL}." if result.gaps_are_equal else ""
    return EXPLANATION.render(
        words=f"{result.label}, with a probability of {result.probability:.3f}; {result.method} has "
        f"{result.parameters:,} parameters.{adds}{gaps}",
        image=b64encode(png(figure(result, narrow=NARROW))).decode(),
        label=f"{result.method}: {export.LABEL}",
        tables=[export.token_table(result)],
    )
