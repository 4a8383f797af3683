"""The walks of CONTRIBUTING.md through the library's files, compared with a trace."""

import re
import sys
from itertools import groupby
from pathlib import Path

import pytest

from vnait import cli
from vnait.data import read
from walks import entered

PAGE = (Path(__file__).parents[1] / "CONTRIBUTING.md").read_text(encoding="utf-8")
WALKS = {
    "- A text,": ["train", "--steps", "1"],
    "- A coordinate,": ["compare", "--methods", "vnait-warp", "--seeds", "1", "--steps", "1", "--jobs", "1"],
}


@pytest.fixture(scope="module")
def rows(tmp_path_factory) -> Path:
    path = tmp_path_factory.mktemp("walks") / "rows.csv"
    lines = [f"{['fine', 'poor'][i % 2]} film {i},{['pos', 'neg'][i % 2]},critic {i % 8}" for i in range(40)]
    path.write_text("\n".join(["text,label,critic", *lines]) + "\n", encoding="utf-8")
    return path


@pytest.mark.parametrize("start", WALKS)
def test_a_walk_is_in_the_order_of_a_trace(start, rows, tmp_path):
    written = re.findall(
        r"`(\w+/[\w/]*(?:\.py)?)`", PAGE[PAGE.index(start) :].partition("\n- ")[0].partition("\n\n")[0]
    )
    command, *options = WALKS[start]
    files = entered(lambda: cli.main([command, str(rows), *options, "--quiet", "-o", str(tmp_path / "out")]))
    places = {
        name: next((at for at, file in enumerate(files) if file.startswith(name)), None) for name in written
    }
    assert len(places) > 10
    assert None not in places.values(), f"{command} does not enter them: {places}"
    assert list(places) == sorted(places, key=places.get), f"{command} enters {files}"


def test_reading_a_table_enters_each_file_once(rows):
    """In its own steps; what these share, such as the folding of letters, is below them."""
    steps = []

    def note(frame, event, argument):
        if event == "call" and frame.f_back is not None and frame.f_back.f_code is read.__code__:
            steps.append(Path(frame.f_code.co_filename).name)

    sys.setprofile(note)
    try:
        read(rows, group="critic", merge_labels=True, drop_contradicting=True, min_class=2)
    finally:
        sys.setprofile(None)
    stays = [
        name for name, _ in groupby(steps) if name not in ("tables.py", "files.py", "errors.py", "<string>")
    ]
    assert stays == ["columns.py", "labels.py", "missing.py", "doubtful.py"]
