"""The size and shape of the code: files and lines by kind, rooms, and the longest chains of imports.

python benchmarks/house.py [CHECKOUT]
"""

from __future__ import annotations

import ast
import sys
from collections import Counter
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import networkx as nx


def kinds(text: str) -> Counter[str]:
    """Lines of code, docstrings, imports, comments and blank ones."""
    counts: Counter[str] = Counter()
    kind = {}
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Import | ast.ImportFrom):
            kind |= dict.fromkeys(range(node.lineno, (node.end_lineno or 0) + 1), "imports")
        elif (
            isinstance(node, ast.Expr)
            and isinstance(node.value, ast.Constant)
            and node.value.value is not ...
        ):
            kind |= dict.fromkeys(range(node.lineno, (node.end_lineno or 0) + 1), "docstrings")
    for number, line in enumerate(text.splitlines(), start=1):
        plain = "blank" if not line.strip() else "comments" if line.strip().startswith("#") else "code"
        counts[plain if plain == "blank" else kind.get(number, plain)] += 1
    return counts


def modules(root: Path) -> dict[str, Path]:
    """Dotted name -> file; a stub lists what its package imports lazily."""
    paths = [*root.rglob("*.py"), *root.rglob("*.pyi")]
    names = {path.relative_to(root).with_suffix(""): path for path in paths}
    return {".".join(name.parts).removesuffix(".__init__"): path for name, path in names.items()}


def imports(path: Path, known: dict[str, Path]) -> Iterator[str]:
    """Every module that a file imports: at its top, in functions, under TYPE_CHECKING, and by
    import_module("name").
    """
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            source = str(node.module)
            if node.level:
                assert path.suffix == ".pyi" and node.level == 1, f"{path}: relative import"
                (package,) = (name for name, file in known.items() if file == path)
                source = f"{package}.{source}"
            for alias in node.names:
                whole = f"{source}.{alias.name}"
                yield whole if whole in known else source
        elif (
            isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "import_module"
        ):
            argument = node.args[0]
            parts = argument.values if isinstance(argument, ast.JoinedStr) else [argument]
            if isinstance(parts[0], ast.Constant):
                yield str(parts[0].value).rstrip(".")


@cache
def graph(root: Path) -> nx.DiGraph:
    """An arrow from each module to those that it imports."""
    known = modules(root)
    arrows = nx.DiGraph((name, other) for name, path in known.items() for other in imports(path, known))
    arrows.add_nodes_from(known)
    return arrows


def cycles(root: Path) -> list[list[str]]:
    """Modules that import one another, in circles."""
    return [sorted(some) for some in nx.strongly_connected_components(graph(root)) if len(some) > 1]


def chain(arrows: nx.DiGraph) -> int:
    """How many nodes the longest chain has."""
    return len(nx.dag_longest_path(nx.condensation(arrows)))


def main(root: Path) -> None:
    """Print one line per fact."""
    for part in ("src/vnait", "src/vnait_lab", "tests"):
        files = sorted((root / part).rglob("*.py"))
        texts = [path.read_text(encoding="utf-8") for path in files]
        lines = sum((kinds(text) for text in texts), Counter())
        print(f"{part}: {len(files)} files, {lines.total():,} lines ({dict(lines.most_common())})")
    library = root / "src" / "vnait"
    rooms = sorted(path.name for path in library.iterdir() if path.is_dir() and path.name != "__pycache__")
    loose = sorted(path.name for path in library.glob("*.py"))
    print(f"folders at the library's root: {len(rooms)} ({', '.join(rooms)}); loose files: {len(loose)}")
    everything = graph(root / "src")
    arrows = everything.subgraph(name for name in everything if name.split(".")[0] == "vnait")
    between = nx.DiGraph()
    for module, target in arrows.edges:
        ends = [(*name.split("."), "")[1] for name in (module, target)]
        if ends[0] != ends[1] and all(end in rooms for end in ends):
            between.add_edge(*ends)
    print(f"longest chain between rooms: {chain(between)}; arrows: {between.number_of_edges()}")
    inside = arrows.subgraph(name for name in arrows if name.startswith("vnait.pretrained"))
    print(f"longest chain inside pretrained/: {chain(inside)}")
    print(f"circles: {len(cycles(root / 'src'))}")


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).parents[1])
