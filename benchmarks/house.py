"""The size and shape of the code: files and lines by kind, rooms, and the longest chains of imports.

python benchmarks/house.py [CHECKOUT]
"""

from __future__ import annotations

import ast
import sys
from collections import Counter
from pathlib import Path

import networkx as nx

ROOT = Path(sys.argv[1] if len(sys.argv) > 1 else Path(__file__).parents[1])


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


def graph(source: Path) -> nx.DiGraph:
    """An arrow from each module of the library to those that it imports, lazily or not."""
    paths = {path.relative_to(source).with_suffix(""): path for path in (source / "vnait").rglob("*.py")}
    known = {".".join(name.parts).removesuffix(".__init__"): path for name, path in paths.items()}
    arrows = nx.DiGraph()
    arrows.add_nodes_from(known)
    for name, path in known.items():
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.ImportFrom) and node.module:
                for alias in node.names:
                    whole = f"{node.module}.{alias.name}"
                    target = whole if whole in known else node.module
                    if target in known and target != name:
                        arrows.add_edge(name, target)
    return arrows


def chain(arrows: nx.DiGraph) -> int:
    """How many nodes the longest chain has."""
    return len(nx.dag_longest_path(nx.condensation(arrows)))


def main() -> None:
    """Print one line per fact."""
    for part in ("src/vnait", "src/vnait_lab", "tests"):
        files = sorted((ROOT / part).rglob("*.py"))
        texts = [path.read_text(encoding="utf-8") for path in files]
        lines = sum((kinds(text) for text in texts), Counter())
        print(f"{part}: {len(files)} files, {lines.total():,} lines ({dict(lines.most_common())})")
    library = ROOT / "src" / "vnait"
    rooms = sorted(path.name for path in library.iterdir() if path.is_dir() and path.name != "__pycache__")
    loose = sorted(path.name for path in library.glob("*.py"))
    print(f"folders at the library's root: {len(rooms)} ({', '.join(rooms)}); loose files: {len(loose)}")
    arrows = graph(ROOT / "src")
    between = nx.DiGraph()
    for module, target in arrows.edges:
        ends = [(*name.split("."), "")[1] for name in (module, target)]
        if ends[0] != ends[1] and all(end in rooms for end in ends):
            between.add_edge(*ends)
    print(f"longest chain between rooms: {chain(between)}; arrows: {between.number_of_edges()}")
    inside = arrows.subgraph(name for name in arrows if name.startswith("vnait.pretrained"))
    print(f"longest chain inside pretrained/: {chain(inside)}")
    circles = [part for part in nx.strongly_connected_components(arrows) if len(part) > 1]
    print(f"circles: {len(circles)}")


if __name__ == "__main__":
    main()
