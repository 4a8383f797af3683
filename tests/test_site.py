"""The documentation site: complete, without a broken link, and without anything from other machines."""

import importlib.util
import json
import pkgutil
import re
import shlex
import shutil
from pathlib import Path

import numpy as np
import pytest
from mkdocs.exceptions import Abort
from PIL import Image

import vnait
from test_docs import avoided
from vnait import cli
from vnait.pretrained.doctor import RULES

ROOT = Path(__file__).parent.parent
SEARCHES = {  # what readers look for, and the page that has it
    "left padding": "reference/doctor.html",
    "rope scaling": "docs/extend.html",
    "few labels": "docs/how-to-data.html",
}
LOADED = re.compile(r"""<(?:script|link|img|iframe)\b[^>]*?\b(?:src|href)=["']?((?:https?:)?//[^"'\s>]+)""")


def site_module():
    spec = importlib.util.spec_from_file_location("site_builder", ROOT / "docs" / "site.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


SITE = site_module()


@pytest.fixture
def checkout(tmp_path):
    """The pages that the site is built from, to be changed."""
    for pattern in (*SITE.PAGES, "mkdocs.yml", "docs/docstrings.py"):
        for path in ROOT.glob(pattern):
            target = tmp_path / "checkout" / path.relative_to(ROOT)
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(path, target)
    return tmp_path / "checkout"


@pytest.mark.slow
def test_the_site_is_whole_and_asks_no_other_machine(tmp_path):
    SITE.main(tmp_path / "site")
    pages = {
        str(path.relative_to(tmp_path / "site")): path.read_text()
        for path in (tmp_path / "site").rglob("*.html")
    }
    assert {"index.html", "docs/concepts.html", "docs/faithfulness.html", "studies/index.html"} <= set(pages)
    assert {f"docs/decisions/{path.stem}.html" for path in ROOT.glob("docs/decisions/*.md")} <= set(pages)
    entries = "".join(text for name, text in pages.items() if name.startswith("reference/"))
    names = re.findall(r"^::: .*\.(\w+)$", "".join(SITE.reference().values()), re.M)
    assert [name for name in names if not re.search(rf'id="vnait[\w.]*\.{name}"', entries)] == []
    assert all(name in pages["reference/methods.html"] for name in vnait.METHODS)
    assert "vnait draw" in pages["reference/commands.html"]
    for rule in RULES.values():  # findings name it
        page, _, anchor = rule.page.partition("#")
        assert f'id="{anchor}"' in pages[page], rule.code
    assert [found for text in pages.values() for found in LOADED.findall(text)] == []
    sections = json.loads((tmp_path / "site/search/search_index.json").read_text())["docs"]
    for words, page in SEARCHES.items():
        places = {part["location"] for part in sections if words in f"{part['title']} {part['text']}".lower()}
        assert page in {place.partition("#")[0] for place in places}, words
    styles = "".join(path.read_text() for path in (tmp_path / "site").rglob("*.css"))
    assert not re.search(r"(?:url\(|@import)\s*[\"']?(?:https?:)?//", styles)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("page", "says"),
    [
        ("[part](concepts.md#no-such-part)", "no-such-part"),
        *(
            pytest.param(page, says, marks=pytest.mark.long)
            for page, says in (
                ("[gone](missing.md)", "missing.md"),
                ("![gone](figures/missing.png)", "missing.png"),
                (None, "stray.md"),
            )
        ),
    ],
)
def test_what_is_broken_stops_the_build(checkout, tmp_path, page, says, monkeypatch, caplog):
    """A link, an anchor, a picture, and a page that the navigation leaves out."""
    # Writing the real reference takes the longest.
    monkeypatch.setattr(SITE, "reference", lambda: dict.fromkeys(WRITTEN, "# here"))
    target = checkout / "docs" / ("methods.md" if page else "stray.md")
    target.write_text(f"# A page\n\n{page or ''}\n")
    with pytest.raises(Abort):
        SITE.main(tmp_path / "site", checkout)
    assert says in caplog.text


WRITTEN = [f"{page}.md" for page in (*SITE.REFERENCE, "methods", "commands", "doctor")]


def test_every_public_name_has_an_entry_in_the_reference():
    """Those of each package that states them; the commands have a page of their own."""
    text = "".join(SITE.reference().values())
    packages = [
        importlib.import_module(found.name)
        for found in pkgutil.walk_packages(vnait.__path__, "vnait.")
        if found.ispkg and not found.name.startswith("vnait.cli")
    ]
    names = {
        (name, id(getattr(package, name)))
        for package in [vnait, *packages]
        for name in getattr(package, "__all__", ())
    }
    paths = [entry.rpartition(".") for entry in re.findall(r"^::: (.*)$", text, re.M)]
    entries = {(name, id(getattr(importlib.import_module(package), name))) for package, _, name in paths}
    assert sorted(name for name, _ in names - entries) == sorted(SITE.ELSEWHERE)


def test_every_rule_of_the_doctor_has_an_entry_in_the_reference():
    """With what is wrong, how it shows, and what to do, in the style of the pages."""
    page = SITE.rules()
    entries = dict(re.findall(r"^### [^\n]* \{#(\w+)\}\n\n(.*?)(?=\n##|\Z)", page, re.M | re.S))
    assert list(entries) == [code.lower() for code in RULES]
    for rule in RULES.values():
        text = re.sub(r"\[[^\]]*\]\((https[^)]*)\)|\\", r"\1", entries[rule.code.lower()])
        assert f"{rule.severity}" in text.lower()
        assert text.split("\n\n")[0].endswith(rule.meaning)
        assert text.split("\n\n")[1:] == [rule.details, f"To do: {rule.advice}.\n"]
    assert avoided(page) == {}
    assert f"{len(RULES)} rules" in (ROOT / "docs" / "doctor.md").read_text(encoding="utf-8")


FIGURES = {path.name for path in (ROOT / "docs" / "figures").glob("*.png")}
TRAINED = {"demo.png", "explanation.png", "playground.png", "report.png"}  # of `make demo` and a tutorial


@pytest.mark.slow
@pytest.mark.parametrize("figure", sorted(FIGURES - TRAINED))
def test_a_figure_is_what_its_command_draws(figure, tmp_path, monkeypatch):
    """To a few levels of a colour on average: fonts and matplotlib differ between machines."""
    pages = "\n".join(path.read_text(encoding="utf-8") for path in ROOT.glob("docs/*.md"))
    (command,) = [
        line for line in re.findall(r"`vnait (draw [^`]+)`", pages) if line.endswith(f"docs/figures/{figure}")
    ]
    monkeypatch.chdir(tmp_path)
    cli.main(shlex.split(command))
    kept, new = (
        np.asarray(Image.open(root / "docs/figures" / figure).convert("RGB"), dtype=float)
        for root in (ROOT, tmp_path)
    )
    assert kept.shape == new.shape
    assert np.abs(kept - new).mean() < 3


@pytest.mark.parametrize(
    ("docstring", "markdown"),
    [
        ("One line\nthat goes on: a_b * c.", r"One line that goes on: a\_b \* c."),
        ("`a_b` < c", r"`a_b` \< c"),
        (">>> 1 + 1\n2", "```pycon\n>>> 1 + 1\n2\n```"),
        ("    text -> ids", "```text\ntext -> ids\n```"),
        (
            'one     its meaning\n        that goes on\nother   "a"   first\n        "b"   second',
            '| name | meaning |\n|---|---|\n| `one` | its meaning that goes on |\n| `other` | "a"   '
            'first<br>"b"   second |',
        ),
        ("call (it) -> this;  or that", r"call (it) -\> this;  or that"),
        ("Args:\n    a_b: x * y\n        and z_", "Args:\n    a_b: x \\* y\n        and z\\_"),
    ],
)
def test_a_docstring_is_read_as_it_is_written(docstring, markdown):
    assert SITE.markdown(docstring) == markdown
