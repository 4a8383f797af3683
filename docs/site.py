"""Builds the documentation site from the pages of the repository: python docs/site.py [FOLDER], by default
build/site.

The pages are copied as they lie in the repository, so that a link means the same on the site as in a
checkout; the reference is written from the code. A broken link, or a page that mkdocs.yml leaves out, is an
error.
"""

from __future__ import annotations

import inspect
import logging
import re
import shutil
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from types import FunctionType, ModuleType
from typing import Any

import typer
from mkdocs.commands.build import build
from mkdocs.config import load_config
from mkdocs.exceptions import Abort

import vnait
from vnait.cli import app
from vnait.cli.help import meaning
from vnait.positions import building, coordinates, encodings, inputs

ROOT = Path(__file__).parent.parent
PAGES = (
    "README.md",
    "CONTRIBUTING.md",
    "CHANGELOG.md",
    "docs/**/*.md",
    "docs/**/*.png",
    "docs/*.css",
    "docs/*.js",
    "studies/*.md",
    "studies/findings/*.md",
    "studies/**/*.png",
    "benchmarks/*.md",
)
MARKS = re.compile(r"([\\*_<>\[\]|#~])")  # what Markdown would read into a formula
TORCHS = ("forward", "reset_parameters", "extra_repr")  # torch calls them; a module is described by its class
NAMED = re.compile(r"^(\S+)\s{2,}(\S.*)$")  # a line of a docstring's list: a name, its meaning


def main(site: Path, root: Path = ROOT) -> None:
    """Copy and write the pages, then build the site, strictly."""
    pages = site.with_name(site.name + "-pages")
    shutil.rmtree(pages, ignore_errors=True)
    for path in sorted({path for pattern in PAGES for path in root.glob(pattern)}):
        target = pages / path.relative_to(root)
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(path, target)
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
    found: list[Any] = []
    for part in nav:
        pattern = isinstance(part, str) and "*" in part
        found += (
            sorted(str(path.relative_to(pages)) for path in pages.glob(part))
            if pattern
            else [filled(part, pages)]
        )
    return found


def reference() -> dict[str, str]:
    """The pages that are written from the code, by name."""
    public = {name: getattr(vnait, name) for name in vnait.__all__ if name != "METHODS"}
    vectors = public.pop("vectors")
    public |= {f"vectors.{name}": getattr(vectors, name) for name in of_module(vectors)}
    modules = {"coordinates": coordinates, "encodings": encodings, "inputs": inputs}
    listed = ", ".join(f"[{name}]({name}.md)" for name in modules)
    intro = (
        f"# vnait\n\n{prose(vnait)}\n\n"
        f"The parts of `vnait.positions` have pages of their own: {listed}; "
        "`vnait.METHODS` is [here](methods.md).\n\n"
    )
    pages = {
        "public.md": intro + "\n".join(described(f"vnait.{name}", part) for name, part in public.items())
    }
    for name, module in modules.items():
        own = {part: getattr(module, part) for part in of_module(module)}
        text = "\n".join(described(f"vnait.positions.{part}", value) for part, value in own.items())
        pages[f"{name}.md"] = f"# {name.capitalize()}\n\n{prose(module)}\n\n{text}"
    return pages | {"methods.md": methods(), "commands.md": commands()}


def of_module(module: ModuleType) -> list[str]:
    """The classes and functions that a module offers."""
    names = getattr(module, "__all__", None) or [
        name for name, value in vars(module).items() if getattr(value, "__module__", "") == module.__name__
    ]
    return [name for name in names if not name.startswith("_") and callable(getattr(module, name))]


def described(name: str, part: Any) -> str:
    """A heading, the signature, the docstring, and those of a class's own methods."""
    text = f"## {name.rpartition('.')[2]}\n\n{signature(name, part)}\n\n{prose(part)}\n"
    if inspect.isclass(part):
        for method, function in members(part):
            text += f"\n### {part.__name__}.{method}\n\n{signature(method, function)}\n\n{prose(function)}\n"
    return text


def members(part: type) -> Iterator[tuple[str, Any]]:
    """The public methods that a class itself defines and describes."""
    for name, value in vars(part).items():
        function = getattr(value, "fget", None) or getattr(value, "__func__", value)
        plain = isinstance(function, FunctionType) and not name.startswith("_") and name not in TORCHS
        if plain and function.__doc__ and function.__module__.startswith("vnait"):
            yield name, value


class Raw(str):
    """An annotation that is shown as it is written."""

    __repr__ = str.__str__


def signature(name: str, part: Any) -> str:
    """How it is called, a parameter a line where it is long; a property has a name alone."""
    if isinstance(part, property):
        return f"```python\n{name}\n```"
    try:
        found = inspect.signature(getattr(part, "__func__", part))
    except ValueError:
        return f"```python\n{name}\n```"
    words = [
        parameter.replace(annotation=shown(parameter.annotation))
        for parameter in found.parameters.values()
        if parameter.name not in ("self", "cls")
    ]
    gives = found.empty if inspect.isclass(part) else shown(found.return_annotation)
    call = f"{name}{found.replace(parameters=words, return_annotation=gives)}"
    return f"```python\n{call if len(call) <= 80 else broken(name, words, gives)}\n```"


def broken(name: str, words: Sequence[inspect.Parameter], gives: Any) -> str:
    """A signature with a parameter a line."""
    lines = [str(one) for one in words]
    named = [at for at, one in enumerate(words) if one.kind is one.KEYWORD_ONLY]
    if named and not any(one.kind is one.VAR_POSITIONAL for one in words):
        lines.insert(named[0], "*")
    _, arrow, after = str(inspect.Signature(return_annotation=gives)).partition(" -> ")
    return f"{name}(\n" + "".join(f"    {line},\n" for line in lines) + f"){arrow}{after}"


def shown(annotation: Any) -> Any:
    """A string as it stands, without its quotes."""
    return Raw(annotation) if isinstance(annotation, str) else annotation


def prose(part: Any) -> str:
    """A docstring as Markdown: its paragraphs, its lists of names as tables, its examples as code."""
    blocks = re.split(r"\n\s*\n", inspect.cleandoc(part.__doc__ or ""))
    return "\n\n".join(map(block, blocks))


def block(text: str) -> str:
    """One block of a docstring."""
    lines = text.splitlines()
    if text.startswith(">>>"):
        return f"```pycon\n{text}\n```"
    if all(line.startswith("    ") for line in lines):
        return f"```text\n{inspect.cleandoc(text)}\n```"
    if NAMED.match(lines[0]) and all(NAMED.match(line) or line.startswith("  ") for line in lines):
        return "| name | meaning |\n|---|---|\n" + "\n".join(
            f"| `{name}` | {meaning} |" for name, meaning in names(lines)
        )
    return escaped(" ".join(lines))


def names(lines: Sequence[str]) -> list[tuple[str, str]]:
    """Names and meanings, with the lines that go on joined to theirs; an inner list keeps its lines."""
    found: list[tuple[str, str]] = []
    for line in lines:
        if match := NAMED.match(line):
            found.append((match[1], escaped(match[2])))
        else:
            name, meaning = found[-1]
            inner = re.match(r"\S+\s{2,}\S", line.strip())
            found[-1] = name, f"{meaning}{'<br>' if inner else ' '}{escaped(line.strip())}"
    return found


def escaped(text: str) -> str:
    """Text whose marks Markdown leaves alone, but for what stands in backticks."""
    parts = re.split(r"(`[^`]*`)", text)
    return "".join(part if part.startswith("`") else MARKS.sub(r"\\\1", part) for part in parts)


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
    folder = Path(sys.argv[1]) if len(sys.argv) > 1 else ROOT / "build" / "site"
    try:
        main(folder)
    except Abort as error:
        sys.exit(f"the site was not built: {error}")
    print(folder / "index.html")
