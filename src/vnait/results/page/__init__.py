"""Sections as one HTML file without requests: it includes scripts, style and pictures."""

from base64 import b64encode
from collections.abc import Sequence
from hashlib import sha256
from importlib.resources import files
from pathlib import Path
from typing import Any

from vnait.results.page.sections import Section
from vnait.shared.errors import extra
from vnait.shared.escaping import safe
from vnait.shared.files import atomic_file


def write(path: Path, title: str, sections: Sequence[Section]) -> None:
    """Write the page, whole or not at all."""
    with atomic_file(path) as draft:
        draft.write_text(html(title, sections), encoding="utf-8")


def html(title: str, sections: Sequence[Section]) -> str:
    """The page. Its content security policy allows our scripts, by their hashes, and no request."""
    from jinja2 import Environment, PackageLoader, StrictUndefined

    scripts = _scripts(figures=any(section.figures for section in sections))
    loader = PackageLoader("vnait.results.page", "")
    environment = Environment(
        loader=loader,
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        finalize=_safe,
    )
    environment.filters["base64"] = lambda data: b64encode(data).decode()
    return environment.get_template("page.html").render(
        title=title,
        sections=sections,
        style=_part("page.css"),
        scripts=scripts,
        policy=_policy(scripts),
    )


def _safe(value: Any) -> Any:
    """Text of others without characters that steer; what is marked as HTML is ours."""
    return safe(value) if type(value) is str else value


def _policy(scripts: Sequence[str]) -> str:
    """The content security policy of every page: our scripts, by their hashes, and no request."""
    hashes = [b64encode(sha256(text.encode()).digest()).decode() for text in scripts]
    allowed = " ".join(f"'sha256-{digest}'" for digest in hashes)
    return (
        "default-src 'none'; img-src data:; style-src 'unsafe-inline'; base-uri 'none'; "
        f"form-action 'none'; script-src {allowed}"
    )


def _scripts(*, figures: bool) -> list[str]:
    if not figures:
        return [_part("page.js")]
    with extra("report"):
        from plotly.offline import get_plotlyjs

    return [get_plotlyjs(), _part("page.js")]


def _part(name: str) -> str:
    return (files("vnait.results.page") / name).read_text(encoding="utf-8")
