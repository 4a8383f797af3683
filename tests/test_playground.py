"""The playground as a user has it: served by the command, opened in chromium; nothing leaves this machine."""

from __future__ import annotations

import csv
import gc
import http.client
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from browsing import CHROMIUM, Tab, started
from helpers import methods_of_each_kind
from test_explanation import fitted
from test_report import EVIL, folder_of
from vnait import cli
from vnait import data as text
from vnait.cli.playground.registry import MAX_CHARACTERS, UNTRAINED, Shelf
from vnait.data import vocabulary as vocabulary
from vnait.positions.methods import METHODS
from vnait.results import report
from vnait.shared.errors import InputError
from vnait.train.baselines import fit_baseline

pytest.importorskip("gradio", reason="the playground needs gradio")
from vnait.cli.playground import serve
from vnait.cli.playground.page import explanation

WAIT = 60_000  # milliseconds; the tests beside this one use the cores, too
NO_BROWSER = pytest.mark.skipif(CHROMIUM is None, reason="there is no chromium here: make browser")


def in_a_browser(test: Callable[..., None]) -> Callable[..., None]:
    """A test that needs one, and takes long."""
    return pytest.mark.slow(NO_BROWSER(test))


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("playground") / "model"
    fitted().save(folder)
    return folder


@contextmanager
def served(model: Path) -> Iterator[str]:
    """The server's address, while it runs in a folder of its own, where its comparisons go."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    server = subprocess.Popen(
        [sys.executable, "-m", "vnait", "playground", str(model), f"--port={port}"],
        cwd=model.parent,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),  # a background job ignores it
    )
    with server:
        try:
            assert server.stdout is not None
            line = server.stdout.readline()
            assert line == f"http://127.0.0.1:{port}/  (Ctrl-C ends it)\n"
            yield line.split()[0]
            server.send_signal(signal.SIGINT)
            assert server.wait(10) == 0
            assert server.stdout.read() == ""
        finally:
            server.kill()  # `with` waits for its end


@pytest.fixture(scope="module")
def address(model: Path) -> Iterator[str]:
    with served(model) as address:
        yield address


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    with started() as browser:
        yield browser


@pytest.fixture
def tab(browser: Any, address: str) -> Iterator[Tab]:
    opened = Tab(browser, address)
    opened.page.set_default_timeout(WAIT)
    opened.page.locator(".explanation img").nth(1).wait_for()
    yield opened
    opened.page.context.close()
    # Of what a browser may say gradio says a "Method not implemented." at times, a warning; nothing is an
    # error.
    assert [
        line for line in opened.said if not line.startswith(("warning: Method not", "log: ", "info: "))
    ] == []
    assert {url for url in opened.asked if not url.startswith((address, "data:", "blob:", "about:"))} == set()


def labelled(path: Path, *, rows: int = 40, label: str = "label") -> Path:
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["text", label])
        writer.writerows(
            [f"{('warm', 'dull')[row % 2]} film number {row}", "gb"[row % 2]] for row in range(rows)
        )
    return path


def compare(tab: Tab, path: Path, *, methods: int, seeds: int) -> None:
    """Put a file in and start, with the last `methods` of the defaults."""
    tab.page.get_by_role("tab", name="Compare").click()
    tab.page.locator("input[type=file]").first.set_input_files(path)
    tab.page.get_by_text(path.stem).first.wait_for()
    chosen = tab.page.get_by_label("Methods")
    chosen.click()
    for _ in range(5 - methods):
        tab.page.keyboard.press("Backspace")
    tab.page.keyboard.press("Escape")
    tab.page.get_by_label("number input for Seeds").fill(str(seeds))
    tab.page.keyboard.press("Tab")
    tab.page.get_by_role("button", name="Compare", exact=True).click()


@in_a_browser
def test_a_typed_sentence_changes_both_pictures_and_their_numbers(tab: Tab) -> None:
    pictures = tab.page.locator(".explanation img")
    before = [picture.get_attribute("src") for picture in pictures.all()]
    assert len(set(before)) == 2, "a trained model, and the method before training"
    box = tab.page.get_by_label("Text", exact=True)
    box.click()
    tab.page.keyboard.press("Control+A")
    tab.page.keyboard.type("warm zebra")
    for side in range(2):
        words = tab.page.locator(".explanation table").nth(side).locator("td:first-child")
        words.filter(has_text="zebra").wait_for()
        assert words.all_text_contents() == ["warm", "zebra"]
        assert pictures.nth(side).get_attribute("src") != before[side]
        assert pictures.nth(side).evaluate("one => one.complete && one.naturalWidth > 300")


@pytest.mark.long
@in_a_browser
def test_a_method_can_be_chosen_and_what_it_cannot_show_is_named(tab: Tab) -> None:
    box = tab.page.get_by_label("Text", exact=True)
    box.fill("")
    tab.page.get_by_role("alert").filter(
        has_text="the text is empty; give some words to explain."
    ).first.wait_for()
    box.fill("word " * MAX_CHARACTERS)
    tab.page.get_by_role("alert").filter(has_text="3,000 characters; give 600 at most").first.wait_for()
    box.fill(f"warm {EVIL}")
    tab.page.locator(".explanation img").nth(1).wait_for()
    chosen = tab.page.get_by_label("Model or method").first
    chosen.click()
    chosen.fill("alibi")
    tab.page.get_by_role("option", name=UNTRAINED.format("alibi")).click()
    tab.page.get_by_alt_text("alibi: Tokens on the coordinate line").wait_for()
    assert tab.page.title() == "vnait playground", "not owned"


@in_a_browser
def test_a_bad_upload_gets_the_command_lines_sentence(tab: Tab, tmp_path: Path) -> None:
    compare(tab, labelled(tmp_path / "wrong.csv", label="stars"), methods=1, seeds=1)
    said = tab.page.get_by_role("alert").filter(has_text="has no column 'label'")
    said.wait_for()
    assert "Traceback" not in tab.page.content() and "stars" in str(said.text_content())


@pytest.mark.long
@in_a_browser
def test_a_comparison_runs_to_its_end_and_its_winner_can_be_asked(
    tab: Tab, model: Path, tmp_path: Path
) -> None:
    compare(tab, labelled(tmp_path / "films.csv"), methods=1, seeds=1)
    tab.page.get_by_text("Finished; all results are in").wait_for(timeout=3 * WAIT)
    inner = tab.page.frame_locator("iframe[title=Report]").first
    inner.get_by_role("heading", name="Positional methods on runs/playground/films/data/films.csv").wait_for()
    out = model.parent / "runs" / "playground" / "films"
    assert (out / "records.jsonl").read_text(encoding="utf-8").count("\n") == 3
    tab.page.get_by_role("tab", name="Look").click()
    chosen = tab.page.get_by_label("Model or method").first
    chosen.click()
    tab.page.get_by_role("option", name="films/model").wait_for()


@pytest.mark.long
@in_a_browser
def test_a_comparison_can_be_stopped_and_keeps_what_it_finished(
    tab: Tab, model: Path, tmp_path: Path
) -> None:
    compare(tab, labelled(tmp_path / "long.csv", rows=400), methods=5, seeds=10)
    records = model.parent / "runs" / "playground" / "long" / "records.jsonl"
    deadline = time.monotonic() + 3 * WAIT / 1000
    while not (records.is_file() and records.stat().st_size):
        assert time.monotonic() < deadline
        time.sleep(0.2)
    tab.page.get_by_role("button", name="Stop").click()
    tab.page.get_by_text("Stopped; finished trainings are kept").wait_for()
    kept = records.read_bytes()
    time.sleep(3)
    assert records.read_bytes() == kept and kept.endswith(b"\n")
    assert tab.page.get_by_role("button", name="Stop").is_disabled()


@pytest.mark.long
@in_a_browser
def test_a_report_is_loaded_and_reaches_nothing(tab: Tab, tmp_path: Path) -> None:
    path = report.write(folder_of(tmp_path, name=f"c{EVIL}.csv"))
    for given in (path, tmp_path / "records.jsonl"):
        tab.page.reload()
        tab.page.get_by_role("tab", name="Report").click()
        tab.page.locator("input[type=file]").last.set_input_files(given)
        inner = tab.page.frame_locator("iframe[title=Report]").last
        heading = inner.get_by_role("columnheader", name="parameters").first
        heading.get_by_role("button").click()
        assert heading.get_attribute("aria-sort") == "ascending"
    assert tab.page.title() == "vnait playground", "not owned"


# Everything by which a page can reach an address, and lead its own frame there at the end.
BEACONS = """<!doctype html><html><head><title>beacons</title>
<link rel="preconnect" href="ADDRESS/preconnect"><link rel="prefetch" href="ADDRESS/prefetch">
<link rel="stylesheet" href="ADDRESS/style"><style>@import "ADDRESS/import"; p { color: red;
background: url(ADDRESS/css) }
@font-face { font-family: f; src: url(ADDRESS/font) } p { font-family: f }</style></head>
<body><p>beacons</p><img src="ADDRESS/image"><iframe src="ADDRESS/frame"></iframe>
<object data="ADDRESS/object"></object><video src="ADDRESS/video"></video>
<form id="form" action="ADDRESS/form"></form><a id="link" href="ADDRESS/link" ping="ADDRESS/ping">a</a>
<script src="ADDRESS/script"></script>
<script>
const tries = [
  () => fetch("ADDRESS/fetch", {mode: "no-cors"}),
  () => navigator.sendBeacon("ADDRESS/beacon", "x"),
  () => new WebSocket("ADDRESS/socket".replace("http", "ws")),
  () => new EventSource("ADDRESS/events"),
  () => new Worker("ADDRESS/worker"),
  () => { new Image().src = "ADDRESS/image2" },
  () => window.open("ADDRESS/open"),
  () => parent.location = "ADDRESS/parent",
  () => document.getElementById("form").submit(),
  () => document.getElementById("link").click(),
  () => location = "ADDRESS/location",
]
for (const one of tries) { try { one() } catch (error) {} }
</script></body></html>"""


@contextmanager
def listening() -> Iterator[tuple[str, list[bytes]]]:
    """An address of this machine, and the first line of everything that reached it."""
    heard: list[bytes] = []
    with socket.create_server(("127.0.0.1", 0)) as server:

        def listen() -> None:
            while True:
                try:
                    caller, _ = server.accept()
                except OSError:
                    return
                with caller:
                    caller.settimeout(2)
                    try:
                        heard.append(caller.recv(200).split(b"\r\n")[0])
                    except OSError:
                        heard.append(b"a connection")

        thread = threading.Thread(target=listen, daemon=True)
        thread.start()
        yield f"http://127.0.0.1:{server.getsockname()[1]}", heard
        server.shutdown(socket.SHUT_RDWR)
    thread.join(10)


@in_a_browser
def test_an_uploaded_report_reaches_no_address(browser: Any, address: str, tmp_path: Path) -> None:
    with listening() as (there, heard):
        page = tmp_path / "report.html"
        page.write_text(BEACONS.replace("ADDRESS", there), encoding="utf-8")
        opened = Tab(browser, address)
        opened.page.set_default_timeout(WAIT)
        opened.page.get_by_role("tab", name="Report").click()
        opened.page.locator("input[type=file]").last.set_input_files(page)
        opened.page.locator("iframe[title=Report]").last.wait_for()
        time.sleep(4)
        assert opened.page.title() == "vnait playground", "it led the whole page away"
        opened.page.context.close()
        # The browser may open a connection before it asks the policy; nothing may be said on it.
        assert [line for line in heard if line not in (b"", b"a connection")] == []


def asked_as(address: str, host: str) -> tuple[int, dict[str, str]]:
    """The answer to a request for the page under another name."""
    connection = http.client.HTTPConnection(address.removeprefix("http://").strip("/"), timeout=60)
    connection.request("GET", "/", headers={"Host": host})
    with connection.getresponse() as answer:
        found = answer.status, {name.lower(): value for name, value in answer.getheaders()}
    connection.close()
    return found


@pytest.mark.slow  # the only other one that starts the playground
def test_only_this_machines_names_are_answered(address: str) -> None:
    """Else any site could give its name this machine's address, and read what the page shows."""
    port = address.rpartition(":")[2].strip("/")
    for name in ("127.0.0.1", "localhost"):
        status, headers = asked_as(address, f"{name}:{port}")
        assert status == 200 and "frame-src 'none'" in headers["content-security-policy"]
    for name in ("evil.example", "localhost.evil.example", "127.0.0.1.evil.example", "10.0.0.7", ""):
        assert asked_as(address, f"{name}:{port}")[0] == 400, name


def test_every_machine_means_also_this_ones_name() -> None:
    from vnait.cli.playground import _hosts

    assert _hosts("127.0.0.1") == ["localhost", "127.0.0.1"]
    assert socket.gethostname() in _hosts("0.0.0.0") and "*" not in _hosts("0.0.0.0")


def test_uploads_of_one_name_get_folders_of_their_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from vnait.cli.playground import process

    monkeypatch.chdir(tmp_path)
    files = []
    for user, rows in (("one", 4), ("two", 6)):
        (tmp_path / user).mkdir()
        files.append(labelled(tmp_path / user / "films.csv", rows=rows))
    found = [process._room(file) for file in (*files, *files)]
    assert [out.name for out, _ in found] == ["films", "films-2", "films", "films-2"]
    assert [copy.read_bytes() for _, copy in found[:2]] == [file.read_bytes() for file in files]


@pytest.mark.filterwarnings("ignore:unclosed:ResourceWarning")  # gradio leaves an event loop
def test_comparisons_do_not_wait_for_one_another_unseen(tmp_path: Path) -> None:
    from vnait.cli.playground import page

    shelf = Shelf.of([])
    (start,) = (one for one in page.blocks(shelf).fns.values() if one.name == "run")
    assert start.concurrency_limit is None
    shelf.running += [None] * page.AT_ONCE  # type: ignore[list-item]
    (answer,) = start.fn(str(labelled(tmp_path / "a.csv")), ["none"], "all", 1, "", "")
    (said,) = answer.values()
    assert "2 comparisons are running here already; start this one when one of them ends." in said
    assert len(shelf.running) == page.AT_ONCE


@in_a_browser
@pytest.mark.parametrize("width", [390, pytest.param(1280, marks=pytest.mark.long)])
def test_nothing_is_wider_than_the_screen(width: int, browser: Any, address: str, tmp_path: Path) -> None:
    opened = Tab(browser, address, width=width)
    opened.page.locator(".explanation img").nth(1).wait_for(timeout=WAIT)
    for name in ("Look", "Compare", "Report"):
        opened.page.get_by_role("tab", name=name).click()
        assert opened.page.screenshot(path=tmp_path / f"{name}.png", full_page=True)
        assert opened.page.evaluate("document.documentElement.scrollWidth") == width
    opened.page.context.close()


@pytest.mark.long
@in_a_browser
def test_ctrl_c_ends_it_at_once_while_a_page_is_open_and_draws(browser: Any, model: Path) -> None:
    with served(model) as address:
        opened = Tab(browser, address)
        opened.page.locator(".explanation img").nth(1).wait_for(timeout=WAIT)
        opened.page.get_by_label("Text", exact=True).fill("warm film " * 40)
        time.sleep(0.5)
    opened.page.context.close()


def test_the_shelf_shows_every_method_and_cuts_nothing_silently(model: Path, tmp_path: Path) -> None:
    shelf = Shelf.of([model])
    assert list(shelf.models) == [str(model), *(UNTRAINED.format(name) for name in METHODS)]
    found = shelf.explain(UNTRAINED.format("rope"), "a warm film")
    assert found.method == "rope" and found.tokens == ["a", "warm", "film"]
    with pytest.raises(InputError, match="give 600 at most"):
        shelf.explain(str(model), "a" * (MAX_CHARACTERS + 1))
    with pytest.raises(InputError, match="nowhere is not a saved model"):
        Shelf.of([tmp_path / "nowhere"])


def test_a_baseline_shows_its_terms_and_its_folder_is_taken_as_a_comparisons_winner(tmp_path: Path) -> None:
    table = text.read("builtin:polarity")
    model = fit_baseline(
        "tfidf-logreg", table, table, vocabulary.learn(table.texts), tokenization="words", seed=0
    )
    model.save(tmp_path / "model")
    shelf = Shelf.of([])
    shelf.add_comparison(tmp_path)
    name = str(tmp_path / "model")
    assert next(iter(shelf.models)) == name
    shown = explanation(shelf, name, table.texts[0])
    facts = model.explain(table.texts[0])
    assert facts["label"] in shown and all(f"<td>{term}</td>" in shown for term in facts["terms"])


@pytest.mark.parametrize("name", methods_of_each_kind())
def test_every_method_shows_a_text_or_the_reason_why_not(name: str) -> None:
    try:
        found = Shelf.of([]).explain(UNTRAINED.format(name), "it is warm")
    except InputError as error:
        assert str(error).endswith(".") and name in str(error)
    else:
        assert found.method == name and len(found.tokens) == 3


@pytest.mark.parametrize(
    ("name", "content"),
    [("records.jsonl", b"no json\n"), ("records.jsonl", b""), ("report.html", b"\xff\xfe\x00")],
)
def test_a_file_that_is_no_report_is_one_sentence(tmp_path: Path, name: str, content: bytes) -> None:
    from vnait.cli.playground.page import uploaded_report

    path = tmp_path / name
    path.write_bytes(content)
    shown = uploaded_report(str(path))
    assert shown.startswith('<div role="alert"') and shown.count("<p>") == 1 and "iframe" not in shown


@pytest.mark.filterwarnings("ignore:unclosed:ResourceWarning")  # gradio leaves the socket that it tried
def test_a_port_in_use_is_refused(capsys: pytest.CaptureFixture) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        with pytest.raises(SystemExit) as left:
            cli.main(["playground", f"--port={port}"])
    code = left.value.code
    del left
    gc.collect()
    said = capsys.readouterr()
    assert code == 2 and said.out == ""
    assert said.err.startswith("vnait: ") and str(port) in said.err and said.err.count("\n") == 1


def test_a_port_in_use_is_named_before_models_are_loaded(tmp_path):
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        port = other.getsockname()[1]
        with pytest.raises(
            InputError, match=rf"127\.0\.0\.1:{port} can't be served: .*; give another --port"
        ):
            serve([tmp_path / "gone"], port=port)
