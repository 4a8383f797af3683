"""Plain English, nouns for variables, short functions: what this project once had does not come back.

`python tests/test_language.py [FOLDER]` counts them in a checkout.
"""

import ast
import re
import sys
from collections import Counter
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
FILES = ("src/**/*.py", "docs/**/*.md", "README.md", "CONTRIBUTING.md", "studies/findings/*.md")

# Each with the field's term or a plain word for it.
BANNED = {
    r"hangs? on": "depends on",
    r"waist": "interface",
    r"loud(ness)?": "scale, RMS",
    r"sitting": "round",
    r"lexicon": "vocabulary",
    r"tells? apart": "separates",
    r"(is|are|was|were|be) told(?! apart)": "gets, reads",
    r"(labels|rows) a class": "per class",
    r"(one|once|twice|number|seconds|tokens|row) a (text|row|line|class|cell|call|second|query)": "per",
}
ODD = BANNED | {
    r"tells? (nothing|a|the|every|each|all)": "adds, gives",
    r"a class (has|of its|learns)": "per class",
    r"(once|twice|times?) a (sentence|head|method|step|length|set)": "per head, per step",
    r"by heart": "memorized",
    r"without a word": "silently",
    r"in words": "with a message",
    r"has no say": "has no effect",
    r"quietly": "small",
    r"is made anew": "is computed again",
    r"whole turns?": "full rotations",
    r"told": "given, read",
    r"tells?": "gives, shows",
    r"says?": "states, returns",
    r"said": "stated",
    r"asked": "requested",
    r"holds?": "keeps, contains",
    r"keeps?": "saves",
    r"stands?": "is",
    r"makes? of": "computes from",
    r"besides": "also",
    r"a text": "per text",
    r"a head": "per head",
}

NAMES = {
    "found",
    "one",
    "own",
    "other",
    "given",
    "kept",
    "some",
}  # of variables and arguments, which name nothing
MAX_LINES, MAX_BRANCHES = 60, 15  # of a function, without its docstring
BRANCHES = (ast.If, ast.IfExp, ast.For, ast.While, ast.ExceptHandler, ast.match_case)


@cache
def counts(root: Path) -> Counter[str]:
    """How often each odd word occurs in the files of a checkout, and in the names of its tests."""
    texts = [path.read_text(encoding="utf-8") for pattern in FILES for path in sorted(root.glob(pattern))]
    for path in sorted(root.glob("tests/**/test_*.py")):
        names = re.findall(r"def (test_\w+)", path.read_text(encoding="utf-8"))
        texts += [name.replace("_", " ") for name in names]
    text = "\n".join(texts).lower()
    return Counter({word: len(re.findall(rf"\b{word}\b", text)) for word in ODD})


@pytest.mark.parametrize("word", BANNED)
def test_an_odd_word_does_not_come_back(word):
    found = counts(ROOT)[word]
    assert found == 0, f"{word!r} occurs {found} times; write {ODD[word]}"


def nodes() -> Iterator[tuple[Path, ast.AST]]:
    source = ROOT / "src"
    for path in sorted(source.rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            yield path.relative_to(source), node


def test_variables_are_named_by_nouns():
    names = {
        f"{path.as_posix()}:{node.lineno} {name}"
        for path, node in nodes()
        if (name := getattr(node, "id", None) or getattr(node, "arg", None)) in NAMES
        and isinstance(node, ast.Name | ast.arg)
    }
    assert not names, f"take a noun of the field for {sorted(names)}"


def test_functions_are_short():
    long = {
        f"{path.as_posix()}: {node.name}"
        for path, node in nodes()
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        and (
            lines(node) > MAX_LINES
            or sum(isinstance(part, BRANCHES) for part in ast.walk(node)) > MAX_BRANCHES
        )
    }
    assert not long, f"functions above {MAX_LINES} lines or {MAX_BRANCHES} branches: {sorted(long)}"


def lines(function: ast.FunctionDef | ast.AsyncFunctionDef) -> int:
    """The lines of a function, decorators and docstring left out."""
    first, length = function.body[0], function.end_lineno - function.lineno + 1
    return length if ast.get_docstring(function) is None else length - (first.end_lineno - first.lineno + 1)


if __name__ == "__main__":
    for word, count in counts(Path(sys.argv[1]) if len(sys.argv) > 1 else ROOT).most_common():
        print(f"{count:5}  {word}  ({ODD[word]})")
