"""What other packages and files add to the library: methods, commands, implementations to test, reports of
their records.

An installed package adds a method by the entry point group `vnait.methods`, a name and its `Recipe`
(`vnait.methods` loads them). It adds more by the group `vnait.plugins`, a module that may define

    commands(app)             adds commands to the command line, a typer application
    subjects()                names and, for each, a function that makes its list of implementations for the
                              conformance suite
    formulas()                formulas as plain loops, by the names of methods, for the law `formula`
    report(folder, records)   the title and sections of a report on records that it wrote, or None

A file with a dict METHODS, as in `vnait --plugin FILE.py`, adds methods without a package.
"""

from __future__ import annotations

import sys
from functools import lru_cache
from importlib.metadata import entry_points
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType
from typing import Any

from vnait.shared.errors import InputError, first_line

_SOURCES: dict[str, Path] = {}  # the file that a method came from


@lru_cache(maxsize=1)
def plugins() -> tuple[ModuleType, ...]:
    """The modules of the installed plugins, by name."""
    return tuple(
        entry.load() for entry in sorted(entry_points(group="vnait.plugins"), key=lambda entry: entry.name)
    )


def call_plugins(question: str, *arguments: Any) -> list[Any]:
    """What the plugins that define the function `question` return for these arguments."""
    return [getattr(plugin, question)(*arguments) for plugin in plugins() if hasattr(plugin, question)]


def load_file(path: str | Path) -> list[str]:
    """Run a Python file and add the `Recipe`s of its METHODS to `vnait.METHODS`; their names."""
    import cloudpickle

    from vnait.positions.methods import METHODS
    from vnait.positions.recipe import Recipe

    path = Path(path)
    name = f"plugin_{path.stem}"
    if not path.exists():
        raise InputError(f"there is no file {path}; give a Python file that defines METHODS.")
    spec = spec_from_file_location(name, path) if path.is_file() else None
    if spec is None or spec.loader is None:
        raise InputError(
            f"{path} is not a Python file; give one that defines METHODS, a dict of names and recipes."
        )
    module = sys.modules[name] = module_from_spec(spec)  # torch.compile looks functions up there
    try:
        spec.loader.exec_module(module)
    except Exception as error:
        del sys.modules[name]
        raise InputError(f"{path} failed: {type(error).__name__}: {first_line(error)}.") from error
    cloudpickle.register_pickle_by_value(module)  # worker processes could not import it
    added = getattr(module, "METHODS", None)
    if not isinstance(added, dict) or not added:
        raise InputError(f"{path} defines no METHODS; give it a dict of names and vnait.positions.Recipe.")
    for method, recipe in added.items():
        if not isinstance(recipe, Recipe):
            raise InputError(
                f"{path}: METHODS[{method!r}] is a {type(recipe).__name__}; give a vnait.positions.Recipe."
            )
        if method in METHODS and _SOURCES.get(method) != path.resolve():
            raise InputError(
                f"{path} defines the method {method!r}, which exists already; give it another name."
            )
    METHODS.update(added)
    _SOURCES.update(dict.fromkeys(added, path.resolve()))
    return list(added)
