"""What is installed: few packages, the others late and by an extra; builds that are the same twice."""

from __future__ import annotations

import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from vnait.shared.errors import MissingExtra, extra

ROOT = Path(__file__).parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
OPTIONAL = [
    "matplotlib",
    "PIL",
    "plotly",
    "datasets",
    "gradio",
    "openpyxl",
    "jieba",
    "onnx",
    "bertviz",
    "captum",
]

# Runs without the packages of the extras: train, predict, explain and compare, then each sentence.
WITHOUT = """
import json, sys
for name in {optional}:
    sys.modules[name] = None
from contextlib import redirect_stdout
from io import StringIO
from vnait import cli
from vnait.shared.errors import InputError

def run(*arguments):
    with redirect_stdout(StringIO()) as out:
        try:
            cli.main(list(arguments))
        except SystemExit as left:
            assert not left.code or left.code == 2, left.code
            print(left.code)
    return out.getvalue()

small = ["--steps", "2", "--quiet", "--json"]
run("train", "made.csv", "--method", "none", "--out", "model", *small)
assert "probability" in run("predict", "model", "made.csv", "--quiet")
assert json.loads(run("explain", "model", "warm film", "--json"))["label"]
found = json.loads(run("compare", "made.csv", "--methods", "none", "--seeds", "1", "--out", "out", *small))
assert found["report"] is None and found["picture"] is None and found["model"], found
for arguments in (
    ["draw", "none", "--out", "a.png"],
    ["explain", "model", "warm film", "--out", "a.png"],
    ["predict", "model", "hf:nowhere", "--quiet"],
):
    run(*arguments)
"""


def test_the_core_is_ten_packages_at_most_and_every_extra_is_stated() -> None:
    assert len(PROJECT["dependencies"]) <= 10
    names = {re.split(r"[>=<\[]", one)[0] for one in PROJECT["dependencies"]}
    assert not names & {name.lower() for name in (*OPTIONAL, "pillow", "networkx")}
    written = "".join(path.read_text(encoding="utf-8") for path in (ROOT / "src").rglob("*.py"))
    named = set(re.findall(r"vnait\[(\w+)\]|extra\(\"(\w+)\"\)", written))
    assert {one or other for one, other in named} <= PROJECT["optional-dependencies"].keys()


def test_a_missing_package_is_a_sentence_with_its_extra() -> None:
    message = r"this needs nothing, .* pip install 'vnait\[figures\]'"
    with pytest.raises(MissingExtra, match=message), extra("figures"):
        import nothing.at.all  # noqa: F401


@pytest.mark.long
def test_without_the_extras_all_works_but_drawing(tmp_path: Path) -> None:
    (tmp_path / "made.csv").write_text("text,label\n" + "warm film,pos\ndull plot,neg\n" * 20)
    done = subprocess.run(
        [sys.executable, "-c", WITHOUT.format(optional=OPTIONAL)],
        cwd=tmp_path,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    said = done.stderr.splitlines()
    for package, name in (("matplotlib", "figures"), ("datasets", "hub")):
        line = f"vnait: this needs {package}, which is missing: pip install 'vnait[{name}]'."
        assert line in said, done.stderr
