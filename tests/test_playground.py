"""The playground as a user has it: served by the command, opened in chromium; nothing leaves this machine."""

from __future__ import annotations

import gc
import http.client
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from html import unescape
from pathlib import Path
from typing import Any

import pytest

from browsing import CHROMIUM, Tab, started
from helpers import methods_of_each_kind
from test_explanation import fitted
from test_report import EVIL
from vnait import cli
from vnait import data as text
from vnait.cli.playground.registry import MAX_CHARACTERS, UNTRAINED, Registry
from vnait.data import vocabulary as vocabulary
from vnait.positions.methods import METHODS
from vnait.shared.errors import InputError
from vnait.train.baselines import fit_baseline

pytest.importorskip("gradio", reason="the playground needs gradio")
from vnait.cli.playground import serve
from vnait.cli.playground.page import explanation

WAIT = 60_000  # milliseconds; the tests beside this one use the cores, too
NO_BROWSER = pytest.mark.skipif(CHROMIUM is None, reason="there is no chromium here: make browser")


@pytest.mark.parametrize(
    ("options", "message"),
    [({"host": "::1"}, "is an IPv6 address"), ({"names": ["foo*"]}, "--name 'foo\\*' is not possible")],
)
def test_an_address_that_cannot_be_served_is_refused(options, message):
    with pytest.raises(InputError, match=message):
        serve([], **options)


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
    """The server's address, while it runs."""
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


@pytest.mark.long
@in_a_browser
@pytest.mark.parametrize("width", [390, 1280])
def test_nothing_is_wider_than_the_screen(width: int, browser: Any, address: str, tmp_path: Path) -> None:
    opened = Tab(browser, address, width=width)
    opened.page.locator(".explanation img").nth(1).wait_for(timeout=WAIT)
    assert opened.page.screenshot(path=tmp_path / "page.png", full_page=True)
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


def test_the_registry_shows_every_method_and_cuts_nothing_silently(model: Path, tmp_path: Path) -> None:
    registry = Registry.of([model])
    assert registry.names == [str(model), *(UNTRAINED.format(name) for name in METHODS)]
    shown = explanation(registry, str(model), "a warm film")
    assert "<th>adds</th>" in shown and "adds: to the logit, by integrated gradients" in shown
    found = registry.explain(UNTRAINED.format("rope"), "a warm film")
    assert found.method == "rope" and found.tokens == ["a", "warm", "film"]
    with pytest.raises(InputError, match="give 600 at most"):
        registry.explain(str(model), "a" * (MAX_CHARACTERS + 1))
    with pytest.raises(InputError, match="nowhere is not a saved model"):
        Registry.of([tmp_path / "nowhere"])


def test_a_baseline_shows_its_terms_and_its_folder_is_taken_as_a_comparisons_winner(tmp_path: Path) -> None:
    table = text.read("builtin:polarity")
    model = fit_baseline("tfidf", table, table, vocabulary.learn(table.texts), tokenization="words", seed=0)
    model.save(tmp_path / "model")
    (tmp_path / "records.jsonl").touch()
    registry = Registry.of([tmp_path])
    name = str(tmp_path / "model")
    assert next(iter(registry.saved)) == name
    shown = explanation(registry, name, table.texts[0])
    facts = model.explain(table.texts[0])
    assert facts["label"] in shown and all(f"<td>{term}</td>" in unescape(shown) for term in facts["terms"])
    assert "data:image/png;base64," in shown and facts["by"] in shown
    assert all(f"<td>{token}</td>" in unescape(shown) for token in facts["tokens"])


def test_methods_before_training_cut_a_text_like_the_saved_model_beside_them(tmp_path: Path) -> None:
    table = text.read("builtin:splice")
    words = vocabulary.learn(table.texts, tokenization="characters")
    model = fit_baseline("one-hot", table, table, words, tokenization="characters", seed=0)
    model.save(tmp_path / "linear")
    fitted(tokens="characters").save(tmp_path / "transformer")
    for folder in ("linear", "transformer"):
        explained = Registry.of([tmp_path / folder]).explain(UNTRAINED.format("rope"), "GATTACA")
        assert explained.tokens == list("gattaca")


@pytest.mark.parametrize("name", methods_of_each_kind())
def test_every_method_shows_a_text_or_the_reason_why_not(name: str) -> None:
    try:
        found = Registry.of([]).explain(UNTRAINED.format(name), "it is warm")
    except InputError as error:
        assert str(error).endswith(".") and name in str(error)
    else:
        assert found.method == name and len(found.tokens) == 3


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
