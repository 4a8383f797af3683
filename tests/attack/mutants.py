"""Mutants of what computes positions and attaches it, and the tests that must find each.

make mutants   # first which test reaches which line, then 300 mutants; prints each one and a table

The mutants are mutmut's. Left out are those of texts, which are names and messages, and of what is raised.
mutmut's own run wraps each function, and torch.compile can't read its wrappers; so each mutant is written
into a copy of `src`, and a forked process runs the tests that reach its statement. The test that reaches
fewest lines comes first, since it is the closest.
"""

from __future__ import annotations

import ast
import importlib
import os
import random
import shutil
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import islice, pairwise
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
LIBRARY = ROOT / "src" / "vnait"
PARTS = {
    "coordinates": "positions/coordinates",
    "encodings": "positions/encodings",
    "inputs": "positions/inputs",
    "attach": "pretrained/attach",
}
REACHED = ROOT / "build" / "reached.db"
MOST = 400  # tests of one mutant
STEPS = (0, 10, 60, MOST)  # they run in these steps: most mutants are found by the first
LOADED = ("torch", "transformers", "sklearn", "scipy.stats", "pandas", "gensim", "PIL.Image")
# Two modules are loaded before pytest can rewrite their asserts.
OPTIONS = ["-q", "-p", "no:cacheprovider", "-W", "ignore::pytest.PytestAssertRewriteWarning"]
OPTIONS += ["-m", "not slow and not long", "-o", "timeout=120"]


@dataclass(frozen=True)
class Mutant:
    """One change of one file; `tests` reach the statement that is changed, the closest first."""

    part: str
    file: Path
    line: int
    before: str
    after: str
    code: str
    tests: Sequence[str]

    def __str__(self) -> str:
        return f"{self.file.relative_to(ROOT)}:{self.line}\n- {self.before}\n+ {self.after}"


def measure(tests: Sequence[str] = ()) -> None:
    """Write to REACHED which test reaches which line; in a process of its own, since it imports vnait."""
    REACHED.parent.mkdir(exist_ok=True)
    os.environ["COVERAGE_FILE"] = str(REACHED)
    import pytest

    of_parts = [f"--cov=vnait.{folder}" for folder in PARTS.values()]
    code = pytest.main(
        [*OPTIONS, "-p", "pytest_cov", *of_parts, "--cov-context=test", "--cov-report=", *tests]
    )
    if code != 0:
        REACHED.unlink(missing_ok=True)
        raise SystemExit("the tests fail on the unchanged code.")


class Reach:
    """Which tests reach a line, the closest first."""

    def __init__(self, file: Path) -> None:
        from coverage.data import CoverageData

        data = CoverageData(str(file))
        data.read()
        self.lines = {  # by file under src/
            name.rpartition("/src/")[2]: {
                line: {test.partition("|")[0] for test in contexts if test}
                for line, contexts in data.contexts_by_lineno(name).items()
            }
            for name in data.measured_files()
        }
        self.size = Counter(test for here in self.lines.values() for tests in here.values() for test in tests)

    def tests(self, file: Path, first: int, last: int) -> list[str]:
        """Of the lines; of all lines of the file, if these are run only when it is imported."""
        here = self.lines.get(str(file.relative_to(ROOT / "src")), {})
        found = set().union(*(here.get(line, ()) for line in range(first, last + 1)))
        found = found or set().union(*here.values())
        return sorted(found, key=lambda test: (self.size[test], test))[:MOST]


def mutants_of(part: str, file: Path, reach: Reach) -> list[Callable[[], Mutant | None]]:
    """What makes each mutant of a file; None where a message is changed."""
    import libcst
    from mutmut.mutation.file_mutation import create_mutations

    code = file.read_text()
    module, mutations, *_ = create_mutations(str(file), code)
    statements = [node for node in ast.walk(ast.parse(code)) if isinstance(node, ast.stmt)]

    def make(number: int) -> Mutant | None:
        mutation = mutations[number]
        changed = module.deep_replace(mutation.original_node, mutation.mutated_node).code
        pairs = zip(code.splitlines(), changed.splitlines(), strict=False)
        line, (before, after) = next((n, pair) for n, pair in enumerate(pairs, 1) if pair[0] != pair[1])
        around = [node for node in statements if node.lineno <= line <= (node.end_lineno or 0)]
        inner = max(around, key=lambda node: node.lineno)
        if any(isinstance(node, ast.Raise) for node in around):
            return None
        last = line if isinstance(inner, ast.FunctionDef | ast.ClassDef) else inner.end_lineno or line
        tests = reach.tests(file, inner.lineno, last)
        return Mutant(part, file, line, before.strip(), after.strip(), changed, tests)

    texts = (libcst.SimpleString, libcst.FormattedString)
    numbers = [n for n, mutation in enumerate(mutations) if not isinstance(mutation.original_node, texts)]
    return [partial(make, number) for number in numbers]


class Finder:
    """Runs tests on mutants, in a copy of the sources."""

    def __init__(self, copy: Path) -> None:
        self.copy = copy
        self.passing: set[str] = set()  # of the tests that found something, those that pass without it

    def found_by(self, mutant: Mutant) -> str | None:
        """The first test that fails on the mutant; None if none does."""
        place = self.copy / mutant.file.relative_to(ROOT / "src")
        whole = place.read_text()
        place.write_text(mutant.code)
        try:
            steps = (mutant.tests[first:last] for first, last in pairwise(STEPS))
            found = next((test for step in steps if step and (test := self.failing(step))), None)
        finally:
            place.write_text(whole)
        if found and found != COLLECTION and found not in self.passing:
            if self.failing([found]):
                raise SystemExit(f"{found} fails on the unchanged code.")
            self.passing.add(found)
        return found

    def failing(self, tests: Sequence[str]) -> str | None:
        """The first of the tests that fails, in a forked process that imports vnait from the copy."""
        noted = self.copy / "failing"
        noted.unlink(missing_ok=True)
        child = os.fork()
        if child == 0:
            code = 1
            try:
                quiet = os.open(os.devnull, os.O_WRONLY)
                os.dup2(quiet, 1)
                os.dup2(quiet, 2)
                sys.path[:0] = [str(self.copy), str(ROOT / "tests")]
                import pytest

                code = int(pytest.main(["-x", *OPTIONS, *tests], plugins=[Note(noted)]))
            finally:
                os._exit(code)
        if os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0:
            return None
        return noted.read_text() if noted.exists() else COLLECTION


COLLECTION = "the import"


class Note:
    """A plugin of pytest that writes down which test failed."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def pytest_runtest_logreport(self, report: Any) -> None:
        if report.failed:
            self.path.write_text(report.nodeid)


def main(count: int, seed: int = 0) -> int:
    """Draw mutants, run the tests on each, print each of them and the table."""
    os.chdir(ROOT)
    if not REACHED.exists():
        subprocess.run([sys.executable, __file__, "measure"], check=True)
    reach = Reach(REACHED)
    every = [
        make
        for part, folder in PARTS.items()
        for file in sorted((LIBRARY / folder).glob("*.py"))
        for make in mutants_of(part, file, reach)
    ]
    random.Random(seed).shuffle(every)
    drawn = islice((mutant for make in every if (mutant := make())), count)
    for name in LOADED:
        importlib.import_module(name)
    tried, found = Counter[str](), Counter[str]()
    with tempfile.TemporaryDirectory() as room:
        finder = Finder(Path(room) / "src")
        shutil.copytree(ROOT / "src", finder.copy, ignore=shutil.ignore_patterns("__pycache__"))
        for mutant in drawn:
            by = finder.found_by(mutant)
            tried[mutant.part] += 1
            found[mutant.part] += by is not None
            print(
                f"{mutant}\n{f'found by {by}' if by else f'SURVIVES {len(mutant.tests)} tests'}\n", flush=True
            )
    print(f"{'part':14} {'drawn':>6} {'found':>6} {'share':>7}   of {len(every):,} mutants")
    for part in PARTS:
        print(f"{part:14} {tried[part]:6} {found[part]:6} {found[part] / max(1, tried[part]):7.1%}")
    print(f"{'all':14} {tried.total():6} {found.total():6} {found.total() / tried.total():7.1%}")
    return 0


if __name__ == "__main__":
    if sys.argv[1:2] == ["measure"]:
        measure(sys.argv[2:])
    else:
        sys.exit(main(*map(int, sys.argv[1:] or [300])))
