"""Results in a file, a line of JSON each, so that a run that stops loses none and the next one goes on."""

from __future__ import annotations

import json
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from vnait.shared.files import sync, writing


@dataclass
class Finished:
    """Results by their key, those of a file's earlier runs too; without a path, of this run alone."""

    path: Path | None
    rows: dict[str, dict[str, Any]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if self.path is None or not self.path.is_file():
            return
        for line in self.path.read_text(encoding="utf-8").splitlines():
            with suppress(ValueError, KeyError, TypeError):  # a line that a killed run did not end
                row = json.loads(line)
                self.rows[row["key"]] = row

    def add(self, key: str, **facts: Any) -> None:
        """Keep a result, and write it at once."""
        self.rows[key] = {"key": key, **facts}
        if self.path is None:
            return
        with writing(self.path):
            self.path.parent.mkdir(parents=True, exist_ok=True)
            with self.path.open("a", encoding="utf-8") as file:
                file.write("\n" * self._ends_inside_a_line + json.dumps(self.rows[key]) + "\n")
            sync(self.path)

    @property
    def _ends_inside_a_line(self) -> bool:
        assert self.path is not None
        text = self.path.read_bytes()[-1:] if self.path.is_file() else b""
        return text not in (b"", b"\n")
