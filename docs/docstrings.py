"""The docstrings of the code as Markdown, an extension of mkdocstrings' griffe.

Google's sections (Args, Returns, Raises) are left to it. A list of names with their meanings becomes a table,
and what Markdown would read into a formula is escaped.
"""

import re
from collections.abc import Sequence
from typing import Any

from griffe import Docstring, Extension, Object

MARKS = re.compile(r"([\\*_<>\[\]|#~])")  # what Markdown would read into a formula
NAMED = re.compile(r"^(\S+)\s{2,}(\S.*)$")  # a line of a list: a name, its meaning
SECTION = re.compile(r"^(Args|Returns|Raises|Yields):$")


class Lists(Extension):
    """Rewrites each docstring when griffe has read it."""

    def on_object(self, *, obj: Object, **_: Any) -> None:
        """Called by griffe for every module, class, function and attribute."""
        if isinstance(obj.docstring, Docstring):
            obj.docstring.value = markdown(obj.docstring.value)


def markdown(docstring: str) -> str:
    """A docstring as Markdown."""
    return "\n\n".join(map(block, re.split(r"\n\s*\n", docstring)))


def block(text: str) -> str:
    """One block of a docstring."""
    lines = text.splitlines()
    if text.startswith(">>>"):
        return f"```pycon\n{text}\n```"
    if SECTION.match(lines[0]):
        return "\n".join(section_line(line) for line in lines)
    if all(line.startswith("    ") for line in lines):
        return "```text\n" + "\n".join(line[4:] for line in lines) + "\n```"
    if NAMED.match(lines[0]) and all(NAMED.match(line) or line.startswith("  ") for line in lines):
        return "| name | meaning |\n|---|---|\n" + "\n".join(
            f"| `{name}` | {meaning} |" for name, meaning in names(lines)
        )
    return escaped(" ".join(lines))


def section_line(line: str) -> str:
    """A line of a Google section; the name before its colon stays as it is."""
    name, colon, meaning = line.partition(": ")
    return name + colon + escaped(meaning) if re.fullmatch(r"\s+\w+", name) else escaped(line)


def names(lines: Sequence[str]) -> list[tuple[str, str]]:
    """Names and meanings, with the lines that go on joined to theirs; an inner list keeps its lines."""
    pairs: list[tuple[str, str]] = []
    for line in lines:
        if match := NAMED.match(line):
            pairs.append((match[1], escaped(match[2])))
        else:
            name, meaning = pairs[-1]
            inner = re.match(r"\S+\s{2,}\S", line.strip())
            pairs[-1] = name, f"{meaning}{'<br>' if inner else ' '}{escaped(line.strip())}"
    return pairs


def escaped(text: str) -> str:
    """Text whose marks Markdown leaves alone, but for what stands in backticks."""
    parts = re.split(r"(`[^`]*`)", text)
    return "".join(part if part.startswith("`") else MARKS.sub(r"\\\1", part) for part in parts)
