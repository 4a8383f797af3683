"""Builds the documentation site from the pages of the repository: python docs/site.py [FOLDER], by default
build/site.

The pages are copied as they lie in the repository, so that a link means the same on the site as in a
checkout; the reference is written from the code. A broken link, or a page that mkdocs.yml leaves out, is an
error.
"""

from __future__ import annotations

import logging
import re
import shutil
import sys
from collections.abc import Iterator
from importlib import import_module
from inspect import cleandoc
from pathlib import Path
from typing import Any

import jupytext
import typer
from mkdocs.commands.build import build
from mkdocs.config import load_config
from mkdocs.exceptions import Abort

from vnait.cli import app
from vnait.cli.help import meaning
from vnait.positions import building
from vnait.pretrained.doctor.rules import MODULES, RULES

sys.path.insert(0, str(Path(__file__).parent))
from docstrings import escaped, markdown
from tutorials import notebook

ROOT = Path(__file__).parent.parent
PAGES = (
    "README.md",
    "CONTRIBUTING.md",
    "CHANGELOG.md",
    "SECURITY.md",
    "docs/**/*.md",
    "docs/**/*.png",
    "docs/*.css",
    "docs/*.js",
    "studies/*.md",
    "studies/findings/*.md",
    "studies/**/*.png",
    "benchmarks/*.md",
)
# The public packages of each page of the reference; a name is described where it first occurs.
REFERENCE = {
    "public": ["vnait"],
    "coordinates": ["vnait.positions.coordinates"],
    "encodings": ["vnait.positions.encodings"],
    "inputs": ["vnait.positions.inputs"],
    "positions": ["vnait.positions", "vnait.positions.conformance_suite"],
    "data": ["vnait.data", "vnait.data.vectors"],
    "models": ["vnait.model", "vnait.train.tasks"],
    "pretrained": ["vnait.pretrained", "vnait.pretrained.doctor", "vnait.pretrained.extend"],
    "results": ["vnait.results.drawing", "vnait.results.report"],
}
LAST = ("studies", "benchmarks", "CHANGELOG.md", "docs/decisions", "docs/documents.md")  # in searches
REPORT = re.compile(r"https://github\.com/[\w-]+/([\w-]+)/(?:issues|pull)/(\d+)")
ELSEWHERE = ("METHODS", "vectors", "subjects")  # methods.md; packages of their own


def main(site: Path, root: Path = ROOT) -> None:
    """Copy and write the pages, then build the site, strictly."""
    pages = site.with_name(site.name + "-pages")
    shutil.rmtree(pages, ignore_errors=True)
    for path in sorted({path for pattern in PAGES for path in root.glob(pattern)}):
        target = pages / path.relative_to(root)
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(path, target)
        if path.suffix == ".md" and str(path.relative_to(root)).startswith(LAST):
            target.write_text(
                "---\nsearch: {boost: 0.1}\n---\n" + path.read_text(encoding="utf-8"), encoding="utf-8"
            )
    for page in sorted(pages.glob("docs/tutorials/*.md")):
        jupytext.write(notebook(page), page.with_suffix(".ipynb"))
        title, text = page.read_text(encoding="utf-8").split("\n", 1)
        link = f"[This page as a notebook]({page.stem}.ipynb)"
        page.write_text(f"{title}\n\n{link}\n{text}", encoding="utf-8")
    for name, text in reference().items():
        target = pages / "reference" / name
        target.parent.mkdir(exist_ok=True)
        target.write_text(text, encoding="utf-8")
    config = load_config(
        str(root / "mkdocs.yml"), docs_dir=str(pages.resolve()), site_dir=str(site.resolve())
    )
    config["nav"] = filled(config["nav"], pages)
    build(config)
    (site / "404.html").unlink()  # for servers; its paths begin at the root, which a folder is not


def filled(nav: Any, pages: Path) -> Any:
    """The navigation with every pattern, such as docs/decisions/*.md, replaced by its pages."""
    if isinstance(nav, dict):
        return {title: filled(part, pages) for title, part in nav.items()}
    if isinstance(nav, str):
        return nav
    parts: list[Any] = []
    for part in nav:
        pattern = isinstance(part, str) and "*" in part
        parts += (
            sorted(str(path.relative_to(pages)) for path in pages.glob(part))
            if pattern
            else [filled(part, pages)]
        )
    return parts


def reference() -> dict[str, str]:
    """The pages that are written from the code, by name; mkdocstrings fills in each public name."""
    seen: set[tuple[str, int]] = set()
    pages = {}
    for page, packages in REFERENCE.items():
        text = ""
        for package in map(import_module, packages):
            parts = {(name, id(getattr(package, name))) for name in package.__all__ if name not in ELSEWHERE}
            names = sorted(name for name, _ in parts - seen)
            seen |= parts
            text += f"{markdown(cleandoc(package.__doc__ or ''))}\n\n"
            text += "".join(f"::: {package.__name__}.{name}\n\n" for name in names)
        pages[f"{page}.md"] = f"# {packages[0]}\n\n{text}"
    return pages | {"methods.md": methods(), "commands.md": commands(), "doctor.md": rules()}


def methods() -> str:
    """Every method of `METHODS`, from the built modules."""
    rows = building.rows()
    lines = [
        f"| `{row['name']}` | {escaped(str(row['formula']))} | {row['parameters']:,} | "
        f"{'yes' if row['causal'] else 'no'} "
        f"| {escaped(str(row['source']))} |"
        for row in rows
    ]
    return (
        f"# Methods\n\nThe {len(rows)} names of `vnait.METHODS`, as `vnait list` prints them; learned "
        "numbers at width 768, with a "
        "longest text of 512.\n\n| method | formula | learned | for decoders | source "
        "|\n|---|---|---:|---|---|\n" + "\n".join(lines)
    )


def rules() -> str:
    """Every rule of the doctor, from the docstrings: what is wrong, how it shows, and what to do."""
    text = (
        "# Rules of the doctor\n\n[Find faults of position](../docs/doctor.md) shows how to try them, and "
        "what a bug, a trap and a limit are.\n"
    )
    for module in MODULES:
        subject, _, sentence = cleandoc(module.__doc__ or "").removeprefix("Rules of ").partition(": ")
        text += f"\n## {subject[:1].upper()}{subject[1:]}\n\n{sentence[:1].upper()}{sentence[1:]}\n"
        for rule in RULES.values():
            if rule.examine.__module__ == module.__name__:
                details = REPORT.sub(r"[\1 #\2](\g<0>)", escaped(rule.details))
                text += (
                    f"\n### {rule.code}: {rule.name} {{#{rule.code.lower()}}}\n\n"
                    f"*{rule.severity.capitalize()}.* {escaped(rule.meaning)}\n\n{details}\n\n"
                    f"To do: {escaped(rule.advice)}.\n"
                )
    return text


def commands() -> str:
    """Every command and its options."""
    text = "# Commands\n\nEvery command says the same with `--help`.\n"
    for name, command in leaves("vnait", typer.main.get_command(app)):
        text += f"\n## {name}\n\n{escaped(command.help or '')}\n\n| option | meaning |\n|---|---|\n"
        for parameter in command.params:
            if parameter.name != "help":
                shown_as = (
                    parameter.opts[0] if parameter.param_type_name == "option" else parameter.name.upper()
                )
                text += f"| `{shown_as}` | {escaped(meaning(parameter))} |\n"
    return text


def leaves(name: str, command: Any) -> Iterator[tuple[str, Any]]:
    """The commands under a command that has some, or itself."""
    if not hasattr(command, "commands"):
        yield name, command
    for part, inner in getattr(command, "commands", {}).items():
        yield from leaves(f"{name} {part}", inner)


if __name__ == "__main__":
    logging.basicConfig(level=logging.WARNING, format="%(message)s")
    logging.getLogger("jieba").disabled = True  # the search cuts Chinese words by it; it logs what it loads
    folder = Path(sys.argv[1]) if len(sys.argv) > 1 else ROOT / "build" / "site"
    try:
        main(folder)
    except Abort as error:
        sys.exit(f"the site was not built: {error}")
    print(folder / "index.html")
