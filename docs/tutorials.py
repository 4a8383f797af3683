"""Runs pages and writes what they print into them: python docs/tutorials.py [PAGE ...], by default all.

A tutorial, or a how-to of HOW_TOS, is a Markdown page, which jupytext reads as a notebook: ```python and
```bash blocks are its cells. A ```text block after a cell is the cell's output, and a picture is a file that
the cells wrote.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import jupytext
import nbformat
from nbclient import NotebookClient

DOCS = Path(__file__).parent
FIGURES = DOCS / "figures"
HOW_TOS = [DOCS / f"{name}.md" for name in ("doctor", "how-to-pretrained", "language-models")]
PAGES = [*sorted(DOCS.glob("tutorials/*.md")), *HOW_TOS]
DNA = "runs/dna"  # the comparison of the tutorial `classify`; its report and playground become pictures
WINDOW = "CAGAGCGGACTGGGCTGTAACAGCTTCCGGGTAAGAGGAACTGGGGATGGAAATGGGATG"
WRITTEN = re.compile(r"\A\s*```text\n.*?\n```\n*", re.S)  # an output, at the start of what follows a cell
PICTURE = re.compile(r"!\[[^\]]*\]\(\.\./figures/([\w.-]+)\)")
HEADER = """---
jupyter:
  kernelspec: {name: python3, language: python, display_name: Python 3}
---
"""  # without it, jupytext takes the language of most cells
WIDTH = "90"  # of the terminal that the commands print for


def notebook(page: Path) -> nbformat.NotebookNode:
    """The page as a notebook, without its outputs."""
    cells = jupytext.reads(HEADER + page.read_text(encoding="utf-8"), fmt="md")
    for before, after in zip(cells.cells, cells.cells[1:], strict=False):
        if before.cell_type == "code" and after.cell_type == "markdown":
            after.source = WRITTEN.sub("", after.source)
    cells.cells = [cell for cell in cells.cells if cell.source]
    return cells


def executed(page: Path, folder: Path) -> str:
    """The page with the outputs of its cells, run in an empty folder. An error in a cell is an error."""
    cells = notebook(page)
    client = NotebookClient(cells, timeout=1800, resources={"metadata": {"path": str(folder)}})
    client.execute(env={**os.environ, "COLUMNS": WIDTH})
    parts = []
    for cell in cells.cells:
        if cell.cell_type == "markdown":
            parts.append(cell.source.strip())
        else:
            magic, _, rest = cell.source.partition("\n")
            language, source = ("bash", rest) if magic == "%%bash" else ("python", cell.source)
            parts.append(f"```{language}\n{source}\n```")
            if output := printed(cell):
                parts.append(f"```text\n{output}\n```")
    return "\n\n".join(parts) + "\n"


def printed(cell: nbformat.NotebookNode) -> str:
    """What a cell wrote to standard output, without spaces at the ends of lines."""
    text = "".join(output.get("text", "") for output in cell.outputs if output.get("name") == "stdout")
    return "\n".join(line.rstrip() for line in text.strip("\n").splitlines())


def main(pages: list[Path]) -> None:
    """Write each page anew, and its pictures."""
    for page in pages:
        with tempfile.TemporaryDirectory() as folder:
            page.write_text(executed(page, Path(folder)), encoding="utf-8")
            for name in PICTURE.findall(page.read_text(encoding="utf-8")):
                shutil.copy(Path(folder) / name, FIGURES / name)
            if page.stem == "classify":
                photograph_comparison(Path(folder))


def photograph_comparison(folder: Path) -> None:
    """The top of the report and of the playground, as Debian's chromium shows them."""
    from playwright.sync_api import sync_playwright  # not needed to build the site

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=shutil.which("chromium"), args=["--no-sandbox"])
        view = browser.new_page(viewport={"width": 1000, "height": 1150})
        view.goto((folder / DNA / "report.html").resolve().as_uri(), wait_until="networkidle")
        view.screenshot(path=FIGURES / "report.png")
        view = browser.new_page(viewport={"width": 1280, "height": 760})
        with playground(folder) as address:
            view.goto(address)
            view.get_by_label("Text", exact=True).fill(WINDOW)
            for side in range(2):
                first = view.locator(".explanation img + table").nth(side).locator("td").first
                first.filter(has_text=WINDOW[0].lower()).wait_for()  # the page opens with another text
            view.screenshot(path=FIGURES / "playground.png")
        browser.close()


@contextmanager
def playground(folder: Path) -> Iterator[str]:
    """The address of the playground of the tutorial's models, while it is served."""
    command = [sys.executable, "-m", "vnait", "playground", DNA]
    with subprocess.Popen(command, cwd=folder, stdout=subprocess.PIPE, text=True) as server:
        try:
            assert server.stdout is not None
            yield server.stdout.readline().split()[0]
        finally:
            server.terminate()


if __name__ == "__main__":
    main([Path(name) for name in sys.argv[1:]] or PAGES)
