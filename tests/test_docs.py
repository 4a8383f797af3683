"""Examples of pages and docstrings run; links, files and commands on the pages exist."""

import doctest
import importlib.util
import os
import pkgutil
import re
import shlex
import sys
from collections import Counter
from functools import cache
from pathlib import Path

import numpy as np
import pytest
import typer
from PIL import Image

import vnait
import vnait_lab
from vnait.cli import app, main
from vnait.positions.plugins import load_file

ROOT = Path(__file__).parent.parent
PAGES = sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md"), *ROOT.glob("benchmarks/*.md")])
TUTORIALS = sorted(ROOT.glob("docs/tutorials/*.md"))
# The claims and their results have words of their own, a changelog dates.
FREE = ("CHANGELOG.md", "documents.md", "results.md")
STYLED = [
    page for page in PAGES if page.parent.name in (ROOT.name, "docs", "tutorials") and page.name not in FREE
]
MODULES = sorted(
    found.name
    for package in (vnait, vnait_lab)
    for found in pkgutil.walk_packages(package.__path__, f"{package.__name__}.")
)


def named(paths):
    return [str(path.relative_to(ROOT)) for path in paths]


@pytest.mark.parametrize("module", MODULES)
def test_examples_in_docstrings_give_what_they_show(module):
    found = doctest.testmod(importlib.import_module(module), optionflags=doctest.NORMALIZE_WHITESPACE)
    assert found.failed == 0


@pytest.fixture
def own_methods():
    """Methods that a test adds are removed again."""
    before = dict(vnait.METHODS)
    yield
    vnait.METHODS.clear()
    vnait.METHODS.update(before)


# Trains on texts of 500 tokens; what its blocks call is called by other tests, and CI runs the page, too.
SLOW = {"docs/how-to-research.md"}


@pytest.mark.usefixtures("own_methods")
@pytest.mark.parametrize(
    "page",
    [pytest.param(ROOT / name, id=name, marks=[pytest.mark.slow] * (name in SLOW)) for name in named(PAGES)],
)
def test_python_on_a_page_runs(page, tmp_path, monkeypatch, capsys):
    """And prints what the page shows below a block."""
    text = page.read_text(encoding="utf-8")
    skip_without_packages(text)
    monkeypatch.chdir(tmp_path)
    run_blocks(text, page, capsys)


@pytest.mark.usefixtures("own_methods")
@pytest.mark.parametrize("page", sorted(SLOW))
def test_a_slow_page_prints_what_it_shows(page, tmp_path, monkeypatch, capsys):
    """Up to the last output that it shows."""
    text = (ROOT / page).read_text(encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    run_blocks(text[: text.index("```", text.rindex("```text") + 3) + 3], ROOT / page, capsys)


def run_blocks(text, page, capsys):
    """The blocks of a page in this process, as one program, with what they print compared."""
    space: dict[str, object] = {"__name__": "page"}
    for language, block, shown in re.findall(
        r"```(python|bash)\n(.*?)```(?:\n\n```text\n(.*?)```)?", text, re.S
    ):
        if language == "bash" and page in TUTORIALS:
            continue  # they train; the tutorials' own test runs them
        capsys.readouterr()
        if language == "bash":
            run_commands(block)
        else:
            exec(compile(block, str(page), "exec"), space)
        if shown:
            assert printed_words(language, capsys.readouterr().out) == printed_words(language, shown)


def run_commands(block):
    """The lines of a ```bash block, each a command of vnait, in this process."""
    for line in block.replace("\\\n", " ").splitlines():
        program, *arguments = shlex.split(line)
        assert program == "vnait"
        main(arguments)


def printed_words(language, text):
    """What a block prints; of commands the words alone, since figures differ between machines."""
    return text.split() if language == "python" else Counter(without_figures(text))


def without_figures(text):
    """The words of an output, each number as #."""
    return re.sub(r"[-+]?\d[\d.,]*", "#", text).split()


def skip_without_packages(text):
    """A package whose files a page reads is no dependency of ours."""
    for package in re.findall(r'files\("(\w+)"\)', text):
        pytest.importorskip(package, reason=f"the page needs the package {package}")


def outputs(text):
    """What the cells print."""
    cells = re.findall(r"```(python|bash)\n.*?```\n\n```text\n(.*?)```", text, re.S)
    return [printed_words(language, shown) for language, shown in cells]


@pytest.mark.slow
@pytest.mark.parametrize("page", TUTORIALS, ids=named(TUTORIALS))
def test_a_tutorial_runs_as_a_notebook_and_prints_what_its_page_shows(page, tmp_path, monkeypatch):
    text = page.read_text(encoding="utf-8")
    skip_without_packages(text)
    monkeypatch.syspath_prepend(ROOT / "docs")
    command = tmp_path / "bin" / "vnait"
    command.parent.mkdir()
    command.write_text(f'#!/bin/sh\nexec {sys.executable} -m vnait "$@"\n')
    command.chmod(0o755)
    monkeypatch.setenv("PATH", str(command.parent), prepend=os.pathsep)
    tutorials = importlib.import_module("tutorials")
    run = tutorials.executed(page, tmp_path)
    written = re.compile(r"(```(?:python|bash)\n.*?```\n\n)```text\n.*?```", re.S)
    assert written.sub(r"\1", run) == written.sub(r"\1", text)
    assert outputs(run) == outputs(text)
    for name in tutorials.PICTURE.findall(text):
        shown, drawn = (np.asarray(Image.open(path)) for path in (tutorials.FIGURES / name, tmp_path / name))
        assert shown.shape == drawn.shape


def test_an_excerpt_on_a_how_to_is_printed_in_its_tutorial():
    """Line by line, by its words; the tutorials' own test runs the commands, which train."""
    tutorial, how_to = (
        (ROOT / "docs" / name).read_text(encoding="utf-8")
        for name in ("tutorials/classify.md", "how-to-data.md")
    )
    printed = [without_figures(line) for line in tutorial.splitlines()]
    excerpts = re.findall(r"(?<!```\n\n)```text\n(.*?)```", how_to, re.S)
    assert len(excerpts) == 3
    lines = [line for excerpt in excerpts for line in excerpt.splitlines()]
    assert [line for line in lines if without_figures(line) not in printed] == []


@pytest.mark.parametrize("page", PAGES, ids=named(PAGES))
def test_links_and_files_named_on_a_page_exist(page):
    text = page.read_text(encoding="utf-8")
    links = [
        link
        for link in re.findall(r"\]\(([^)#]+)", text)
        if "://" not in link and not link.startswith("../reference/")  # which the site writes, and checks
    ]
    missing = [link for link in links if not (page.parent / link).exists()]
    named = re.findall(r"`((?:src|tests|docs|benchmarks|studies)/[\w./-]+)`", text)
    assert missing == []
    assert [name for name in named if not (ROOT / name).exists()] == []


def test_modules_in_commands_exist():
    """On pages, in the Makefile and in docstrings."""
    modules = {
        module
        for path in (*PAGES, ROOT / "studies/README.md", ROOT / "Makefile", *ROOT.glob("src/**/*.py"))
        for module in re.findall(r"python -m (vnait_lab(?:\.[a-z_]+)+)", path.read_text(encoding="utf-8"))
    }
    assert len(modules) > 20
    assert [module for module in modules if importlib.util.find_spec(module) is None] == []


@pytest.mark.parametrize("page", PAGES, ids=named(PAGES))
def test_commands_on_a_page_are_known(page):
    """Every `vnait ...` on a page names a command and options that exist."""
    text = re.sub(r"```text\n.*?```", "", page.read_text(encoding="utf-8"), flags=re.S).replace("\\\n", " ")
    lines = re.findall(r"^\s*vnait (.+?)(?:\s{2,}#.*)?$", text, re.M) + re.findall(r"`vnait ([^`]+)`", text)
    for line in lines:
        check_command(shlex.split(line, comments=True))


@cache
def commands():
    return typer.main.get_command(app)


def check_command(words):
    command = commands()
    while words[:1] == ["--plugin"]:  # an option of `vnait` itself, with a file
        words = words[2:]
    while words and not words[0].startswith("-") and hasattr(command, "commands"):
        name = words.pop(0)
        assert name in command.commands, name
        command = command.commands[name]
    known = {
        option for parameter in command.params for option in (*parameter.opts, *parameter.secondary_opts)
    } | {"--help"}
    assert [word for word in words if word.startswith("--") and word.split("=")[0] not in known] == []


def patterns():
    """What docs/style.md avoids: its table's first two columns."""
    table = (ROOT / "docs/style.md").read_text(encoding="utf-8").replace(r"\|", "\0")
    rows = re.findall(r"^\| ([^|]+) \| `+(.+?)`+ \|", table, re.M)
    return {name: re.compile(pattern.replace("\0", "|"), re.M) for name, pattern in rows}


def avoided(text):
    """How often each pattern occurs in a page's prose: without code, links' targets and tables."""
    text = re.sub(r"```.*?```", "", text, flags=re.S)
    text = re.sub(r"^    .*$|^\|.*$|`[^`]*`|\]\([^)]*\)", "", text, flags=re.M)
    text = re.sub(r"(?<!\n)\n(?![\n#*-])", " ", text)
    return Counter({name: len(pattern.findall(text)) for name, pattern in patterns().items()}) + Counter()


@pytest.mark.parametrize("page", STYLED, ids=named(STYLED))
def test_a_page_keeps_the_style(page):
    """Nothing in its prose is what docs/style.md avoids."""
    assert avoided(page.read_text(encoding="utf-8")) == Counter()


def test_the_readme_is_short():
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    cells = [cell.strip() for row in re.findall(r"^\|(.+)\|$", text, re.M) for cell in row.split("|")]
    assert len(text.split()) <= 900
    assert max(len(cell.split()) for cell in cells) <= 20


def test_the_readme_shows_what_the_tutorial_and_the_page_of_evidence_have():
    """Its output is that of the tutorial, which runs; its table's numbers are those of the page."""
    readme, tutorial, evidence = (
        (ROOT / name).read_text(encoding="utf-8")
        for name in ("README.md", "docs/tutorials/classify.md", "docs/does-vnait-work.md")
    )
    (output,) = re.findall(r"```text\n(.*?)```", readme, re.S)
    assert [part for part in output.strip().split("\n\n") if part not in tutorial] == []
    (table,) = re.findall(r"^\| You have .*?(?=\n\n)", readme, re.M | re.S)
    number = re.compile(r"\d[\d,.]*\d|\d")
    assert set(number.findall(table)) - set(number.findall(evidence)) == set()


@pytest.mark.usefixtures("own_methods")
def test_the_file_of_the_contributing_page_is_a_plugin(tmp_path):
    """The blocks of the coordinate, the encoding and the method, in one file."""
    text = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    coordinate, _, encoding, _, method, _ = re.findall(r"```python\n(.*?)```", text, re.S)
    path = tmp_path / "mine.py"
    path.write_text(coordinate + encoding + method)
    load_file(path)
    rows = vnait.conformance("mine", laws=["right padding", "gradient", "state dict"])
    assert [row.passed for row in rows] == [True] * 3
