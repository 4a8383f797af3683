"""The tree is the architecture: imports run one way, in the order data flows, and heavy libraries stay where they are used."""

import ast
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import vnait

ROOT = Path(vnait.__file__).parent

# A module may import those of the lines before its own, at its top. A folder counts as one module.
ORDER = [
    "errors",
    "injection page",
    "files randomness record threads",
    "coordinates",
    "encodings",
    "inputs",
    "method",
    "methods",
    "backbone cache",
    "attached attention laws",
    "bases",
    "model",
    "text vectors",
    "statistics lexicon scores",
    "about results",
    "advice",
    "card linear",
    "predict",
    "bag_of_words checkpoints",
    "train",
    "baselines",
    "plan",
    "comparison",
    "drawing suites",
    "explanation",
    "estimator study",
    "__init__",
    "terminal",
    "studies",
    "report",
    "playground",
    "cli",
    "__main__",
]
RANK = {name: rank for rank, line in enumerate(ORDER) for name in line.split()}
PARTS = {"coordinates", "encodings", "inputs", "method", "methods", "backbone", "injection", "errors", "__init__"}
SOURCES = sorted(path for path in ROOT.rglob("*.py"))


def module_of(path: Path) -> str:
    """The stage that a file belongs to: its folder's name, or its own."""
    first, *rest = path.relative_to(ROOT).parts
    return first if rest else Path(first).stem


def statements(body: list[ast.stmt], *, inside: bool) -> Iterator[ast.Import | ast.ImportFrom]:
    """The imports of a module that run when it is imported; with `inside`, also those in functions. Not TYPE_CHECKING's."""
    for node in body:
        if isinstance(node, ast.Import | ast.ImportFrom):
            yield node
        elif isinstance(node, ast.If) and isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING":
            yield from statements(node.orelse, inside=inside)
        elif inside or not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            for name in ("body", "orelse", "finalbody", "handlers"):
                yield from statements(getattr(node, name, []), inside=inside)


def imported(path: Path, *, inside: bool = False) -> set[str]:
    """Dotted names: vnait.text for `from vnait import text`, vnait.text.tables for `from vnait.text.tables import read`."""
    found: set[str] = set()
    for node in statements(ast.parse(path.read_text(encoding="utf-8")).body, inside=inside):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        else:
            assert node.level == 0, f"{path}: relative import"
            package = node.module or ""
            found |= {f"{package}.{alias.name}" for alias in node.names} if package == "vnait" else {package}
    return found


def stages(path: Path, *, inside: bool = False) -> set[str]:
    return {name.split(".")[1] for name in imported(path, inside=inside) if name.startswith("vnait.")}


def label(path: Path) -> str:
    return str(path.relative_to(ROOT))


def test_every_module_has_its_place_in_the_order():
    assert {module_of(path) for path in SOURCES} == set(RANK)


@pytest.mark.parametrize("path", SOURCES, ids=label)
def test_no_module_imports_a_later_one(path):
    own = module_of(path)
    allowed = {name for name in RANK if RANK[name] < RANK[own]} | {own}
    assert stages(path) <= allowed


@pytest.mark.parametrize("path", SOURCES, ids=label)
def test_nobody_imports_the_command_line(path):
    assert "cli" not in stages(path, inside=True) or module_of(path) in ("cli", "__main__")


@pytest.mark.parametrize("path", [path for path in SOURCES if module_of(path) in PARTS], ids=label)
def test_the_parts_need_torch_alone(path):
    outside = {name.split(".")[0] for name in imported(path)} - set(sys.stdlib_module_names) - {"vnait"}
    assert outside <= {"torch", "jaxtyping", "wrapt"}


def test_no_backbone_knows_a_method_and_no_method_a_backbone():
    assert stages(ROOT / "backbone.py", inside=True) == {"injection"}
    for name in ("coordinates", "encodings", "inputs", "method", "methods"):
        for path in SOURCES:
            if module_of(path) == name:
                assert not stages(path, inside=True) & {"backbone", "model", "train"}


def test_whoever_reads_records_needs_no_training():
    """The second waist: the report of a comparison reads records alone."""
    assert stages(ROOT / "record.py", inside=True) == {"errors"}
    assert stages(ROOT / "statistics.py", inside=True) == set()
    assert stages(ROOT / "results.py", inside=True) == {"record", "statistics"}
    assert stages(ROOT / "advice.py", inside=True) == {"record", "results", "statistics"}
    assert stages(ROOT / "about.py", inside=True) == {"errors", "files"}
    for path in (ROOT / "report").glob("*.py"):
        needed = {"about", "advice", "errors", "files", "page", "record", "report", "results", "scores", "statistics"}
        assert stages(path, inside=True) <= needed | {"studies", "study"}, "a study's claims judge its records"
    assert stages(ROOT / "terminal.py") == set()


def test_the_rules_bite(tmp_path):
    """On a module that breaks them."""
    wrong = tmp_path / "wrong.py"
    wrong.write_text(
        "from typing import TYPE_CHECKING\nfrom vnait import cli\nfrom vnait.text.tables import read\n"
        "if TYPE_CHECKING:\n    from vnait.train import Run\n"
        "try:\n    import vnait.model\nexcept ImportError:\n    pass\n"
        "def later():\n    from vnait.predict import load\n"
    )
    assert stages(wrong) == {"cli", "text", "model"}
    assert stages(wrong, inside=True) == {"cli", "text", "model", "predict"}
