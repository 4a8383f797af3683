"""Methods from a file or a package: in this process, on the command line, in worker processes."""

import sys
from importlib.metadata import EntryPoint
from types import ModuleType

import pytest

from vnait import METHODS, InputError, cli
from vnait.positions import conformance_suite as laws
from vnait.positions import methods, plugins

FILE = """
import torch
from torch import nn
from vnait import Injection, Method
from vnait.positions.coordinates import Index
from vnait.positions.recipe import Recipe

class LogBias(nn.Module):
    relative = True

    def __init__(self, num_heads):
        super().__init__()
        self.strength = nn.Parameter(torch.zeros(num_heads))

    def forward(self, at):
        line = at[..., 0]
        distance = (line[:, :, None] - line[:, None, :]).abs()[:, None]
        strength = nn.functional.softplus(self.strength)[:, None, None]
        return Injection(bias=(-strength * torch.log1p(distance)).to(self.strength.dtype))

METHODS = {
    "log-bias": Recipe(
        make=lambda size: Method(coordinates=Index(), encoding=LogBias(size.num_heads)),
        formula="scores - a_h log(1 + |i - j|)",
        source="here",
    )
}
"""


@pytest.fixture
def file(tmp_path):
    before = dict(METHODS)
    path = tmp_path / "mine.py"
    path.write_text(FILE)
    yield path
    METHODS.clear()
    METHODS.update(before)


def test_a_file_adds_a_method(file):
    """That worker processes know it too is tested in test_comparison.py, which has some."""
    assert plugins.load_file(file) == ["log-bias"] and "log-bias" in METHODS


def test_the_command_line_tries_the_laws_on_a_file(file, capsys):
    with pytest.raises(SystemExit) as stopped:
        cli.main(["conformance", str(file), "missing-method", "--quiet"])
    assert stopped.value.code == 2 and "'missing-method' is" in capsys.readouterr().err
    cli.main(["conformance", "--help"])
    assert ".py file" in capsys.readouterr().out
    cli.main(["--plugin", str(file), "list", "--json"])
    assert '"log-bias"' in capsys.readouterr().out
    with pytest.raises(SystemExit) as stopped:
        cli.main(["list", "--plugin", str(file)])
    assert stopped.value.code == 2 and "it comes before the command" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (None, "there is no file .*; give a Python file that defines METHODS"),
        ("METHODS = {}", "defines no METHODS; give it a dict"),
        ("METHODS = {'one': 1}", r"METHODS\['one'\] is a int; give a vnait.positions.Recipe"),
        (FILE.replace("log-bias", "rope"), "defines the method 'rope', which exists already"),
        ("1 / 0", "failed: ZeroDivisionError: division by zero."),
    ],
)
def test_what_is_no_plugin_is_refused_with_a_message(tmp_path, text, message):
    path = tmp_path / "wrong.py"
    if text is not None:
        path.write_text(text)
    with pytest.raises(InputError, match=message):
        plugins.load_file(path)


def test_an_installed_package_adds_a_method(file, monkeypatch):
    plugins.load_file(file)
    recipe = METHODS.pop("log-bias")
    monkeypatch.setattr(EntryPoint, "load", lambda self: recipe)
    entries = [EntryPoint(name="log-bias", value="anywhere:RECIPE", group="vnait.methods")]
    monkeypatch.setattr(methods, "entry_points", lambda group: entries if group == "vnait.methods" else [])
    methods._load_entry_points()
    assert METHODS["log-bias"] is recipe


def test_every_plugin_is_looked_up_for_implementations(monkeypatch):
    """Names of one plugin do not hide those of another, and all of them are suggested."""
    (rope,) = laws.subjects("rope")
    one, other = ModuleType("one"), ModuleType("other")
    one.subjects = lambda: {"first:rope": lambda: [rope]}
    other.subjects = lambda: {"second:rope": lambda: [rope, rope]}
    monkeypatch.setattr(plugins, "plugins", lambda: (one, other))
    assert laws.subjects("second:rope") == [rope, rope]
    with pytest.raises(InputError, match=r"Did you mean 'second:rope'\? Take one of ours, none"):
        laws.subjects("secund:rope")


def test_a_file_that_fails_leaves_no_module_behind(tmp_path):
    path = tmp_path / "fails.py"
    path.write_text("1 / 0")
    with pytest.raises(InputError, match="ZeroDivisionError"):
        plugins.load_file(path)
    assert "plugin_fails" not in sys.modules


@pytest.mark.parametrize(
    ("name", "load", "message"),
    [
        ("rope", lambda self: METHODS["none"], "has the name of a method that exists"),
        ("mine", lambda self: 3, "is a int and no vnait.positions.Recipe"),
        ("mine", lambda self: 1 / 0, "can't be imported (ZeroDivisionError: division by zero)"),
    ],
)
def test_an_entry_point_that_can_not_be_used_is_left_out(name, load, message, monkeypatch, caplog):
    before = dict(METHODS)
    entries = [EntryPoint(name=name, value="anywhere:RECIPE", group="vnait.methods")]
    monkeypatch.setattr(EntryPoint, "load", load)
    monkeypatch.setattr(methods, "entry_points", lambda group: entries)
    methods._load_entry_points()
    assert before == METHODS and message in caplog.text
