"""What README, docs and docstrings show is run; what they link to exists."""

import doctest
import importlib
import pkgutil
import re
import shlex
from pathlib import Path

import pytest
import typer

import vnait
from vnait.cli import app

ROOT = Path(__file__).parent.parent
PAGES = sorted([ROOT / "README.md", ROOT / "CHANGELOG.md", *ROOT.glob("docs/**/*.md"), *ROOT.glob("benchmarks/*.md")])
MODULES = sorted(found.name for found in pkgutil.walk_packages(vnait.__path__, "vnait."))


def named(paths):
    return [str(path.relative_to(ROOT)) for path in paths]


@pytest.mark.parametrize("module", MODULES)
def test_examples_in_docstrings_give_what_they_show(module):
    found = doctest.testmod(importlib.import_module(module), optionflags=doctest.NORMALIZE_WHITESPACE)
    assert found.failed == 0


@pytest.mark.parametrize("page", PAGES, ids=named(PAGES))
def test_python_on_a_page_runs(page, tmp_path, monkeypatch):
    blocks = re.findall(r"```python\n(.*?)```", page.read_text(encoding="utf-8"), re.S)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(vnait.methods, "METHODS", vnait.METHODS)
    before = dict(vnait.METHODS)
    space: dict[str, object] = {}
    try:
        for block in blocks:
            exec(compile(block, str(page), "exec"), space)
    finally:
        vnait.METHODS.clear()
        vnait.METHODS.update(before)


@pytest.mark.parametrize("page", PAGES, ids=named(PAGES))
def test_links_and_files_named_on_a_page_exist(page):
    text = page.read_text(encoding="utf-8")
    links = [link for link in re.findall(r"\]\(([^)#]+)", text) if "://" not in link]
    missing = [link for link in links if not (page.parent / link).exists()]
    named = re.findall(r"`((?:src|tests|docs|benchmarks)/[\w./-]+)`", text)
    assert missing == []
    assert [name for name in named if not (ROOT / name).exists()] == []


@pytest.mark.parametrize("page", PAGES, ids=named(PAGES))
def test_commands_on_a_page_are_known(page):
    """Every `vnait ...` on a page names a command and options that exist."""
    text = page.read_text(encoding="utf-8")
    lines = re.findall(r"^\s*vnait (.+?)(?:\s{2,}#.*)?$", text, re.M) + re.findall(r"`vnait ([^`]+)`", text)
    for line in lines:
        check_command(shlex.split(line, comments=True))


def check_command(words):
    command = typer.main.get_command(app)
    while words and not words[0].startswith("-") and hasattr(command, "commands"):
        name = words.pop(0)
        assert name in command.commands, name
        command = command.commands[name]
    known = {option for parameter in command.params for option in (*parameter.opts, *parameter.secondary_opts)} | {
        "--help"
    }
    assert [word for word in words if word.startswith("--") and word.split("=")[0] not in known] == []


def test_the_readme_is_short():
    assert len((ROOT / "README.md").read_text(encoding="utf-8").splitlines()) <= 150
