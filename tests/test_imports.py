"""The tree is the architecture: the library knows nothing of the laboratory, no module imports itself by way
of others.
"""

import sys
from pathlib import Path

import pytest

from house import cycles, graph, imports, modules

SOURCE = Path(__file__).parents[1] / "src"
# A room imports those on lower floors, and no other.
FLOORS = {
    "shared": 1,
    "data": 2,
    "positions": 2,
    "model": 3,
    "pretrained": 3,
    "results": 4,
    "train": 5,
    "comparison": 6,
    "cli": 7,
}
PARTS = (
    "coordinates",
    "encodings",
    "inputs",
    "method.py",
    "methods.py",
    "building.py",
    "injection.py",
)


def of_laboratory(root: Path) -> list[str]:
    """The modules of the library that import the laboratory."""
    arrows = graph(root).edges
    return [
        name for name, other in arrows if name.split(".")[0] == "vnait" and other.split(".")[0] == "vnait_lab"
    ]


def room(module: str) -> str | None:
    """The room of a module of the library; None for the package itself and its command line's entry."""
    parts = module.split(".")
    return parts[1] if parts[0] == "vnait" and len(parts) > 1 and parts[1] != "__main__" else None


def upward(root: Path) -> list[str]:
    """Imports from a room to one above it, or beside it."""
    return [
        f"{module} imports {target}"
        for module, target in graph(root).edges
        if (below := room(module)) and (above := room(target)) and below != above
        if FLOORS[above] >= FLOORS[below]
    ]


def test_the_library_never_imports_the_laboratory():
    assert of_laboratory(SOURCE) == []


def test_the_library_has_nine_rooms_and_nothing_else_at_its_root():
    entries = {path.name for path in (SOURCE / "vnait").iterdir()} - {"__pycache__"}
    assert entries == {"__init__.py", "__main__.py", "py.typed", *FLOORS}


def test_no_room_imports_one_above_or_beside_it():
    assert upward(SOURCE) == []


@pytest.mark.parametrize(
    "line",
    [
        "from vnait.train.run import Run",
        "def later():\n    import vnait.train.run",
        "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from vnait.train.run import Run",
        "from importlib import import_module\nimport_module('vnait.train.run')",
    ],
)
def test_an_upward_import_is_found_even_if_it_is_lazy(tmp_path, line):
    for name, text in (("vnait/positions/method.py", line), ("vnait/train/run.py", "")):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    assert upward(tmp_path) == ["vnait.positions.method imports vnait.train.run"]


def test_no_module_imports_itself_by_way_of_others():
    assert cycles(SOURCE) == []


@pytest.mark.parametrize(
    "line",
    [
        "from vnait_lab import study",
        "def later():\n    import vnait_lab.suites",
        "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from vnait_lab.study import Study",
        "from importlib import import_module\nimport_module('vnait_lab.study')",
    ],
)
def test_the_rule_fails_on_a_lazy_import_too(tmp_path, line):
    (tmp_path / "vnait").mkdir()
    (tmp_path / "vnait_lab").mkdir()
    for name, text in (("vnait/text.py", line), ("vnait_lab/study.py", ""), ("vnait_lab/suites.py", "")):
        (tmp_path / name).write_text(text)
    assert of_laboratory(tmp_path) == ["vnait.text"]


def test_a_lazy_circle_is_found(tmp_path):
    (tmp_path / "vnait").mkdir()
    (tmp_path / "vnait" / "one.py").write_text("import vnait.two")
    (tmp_path / "vnait" / "two.py").write_text("def later():\n    from vnait.one import x")
    assert cycles(tmp_path) == [["vnait.one", "vnait.two"]]


def test_the_parts_need_torch_alone():
    known = modules(SOURCE)
    positions = SOURCE / "vnait" / "positions"
    for part in PARTS:
        for path in [positions / part] if part.endswith(".py") else (positions / part).glob("*.py"):
            outside = (
                {name.split(".")[0] for name in imports(path, known)}
                - set(sys.stdlib_module_names)
                - {"vnait"}
            )
            # transformers: its scaling rules of RoPE, loaded where one is asked for
            assert outside <= {"torch", "jaxtyping", "wrapt", "transformers", "lazy_loader"}, path


def test_no_backbone_knows_a_method_and_no_method_a_backbone():
    arrows = graph(SOURCE)
    assert set(arrows["vnait.model.backbone"]) & set(modules(SOURCE)) == {
        "vnait.positions.attention",
        "vnait.positions.injection",
        "vnait.shared.randomness",
    }
    assert set(arrows["vnait.positions.attention"]) & set(modules(SOURCE)) == {
        "vnait.shared.errors",
        "vnait.positions.injection",
        "vnait.positions.toeplitz",
        "vnait.shared.values",
    }
    assert not set(arrows["vnait.positions.toeplitz"]) & set(modules(SOURCE))
    for name in arrows:
        if name.startswith(
            (
                "vnait.positions.coordinates",
                "vnait.positions.encodings",
                "vnait.positions.inputs",
                "vnait.positions.method",
            )
        ):
            assert "vnait.positions.attention" not in arrows[name], name
