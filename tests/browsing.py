"""A real browser for tests: Debian's chromium, and a tab that remembers what its page said and whom it
asked.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")
QUIET = ("--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-sync")
QUIET += ("--disable-background-networking", "--disable-component-update")


@contextmanager
def started() -> Iterator[Any]:
    """Chromium without a window."""
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=list(QUIET))
        yield browser
        browser.close()


class Tab:
    """A page that was opened, with what it said and what it asked for."""

    def __init__(self, browser: Any, address: str, *, width: int = 1280, scheme: str = "light") -> None:
        context = browser.new_context(viewport={"width": width, "height": 900}, color_scheme=scheme)
        context.grant_permissions(["clipboard-read", "clipboard-write"])
        self.page = context.new_page()
        self.said: list[str] = []
        self.asked: list[str] = []
        self.page.on("console", lambda message: self.said.append(f"{message.type}: {message.text}"))
        self.page.on("pageerror", lambda error: self.said.append(str(error)))
        self.page.on("request", lambda request: self.asked.append(request.url))
        self.page.goto(address)

    def see(self, name: str) -> Any:
        """A part by its heading, its figures drawn."""
        part = self.page.locator("section", has=self.page.get_by_role("heading", name=name, exact=True))
        for plot in part.locator(".plot:visible").all():
            plot.scroll_into_view_if_needed()
            plot.locator(".main-svg").first.wait_for()
        return part

    def see_all(self) -> None:
        """Every figure, folded ones too."""
        for summary in self.page.locator("summary").all():
            summary.click()
        for name in self.page.locator("h2").all_text_contents():
            self.see(name)

    def serious(self) -> list[str]:
        """What axe finds serious or critical."""
        from axe_playwright_python.sync_playwright import Axe

        found = Axe().run(self.page).response["violations"]
        return [
            f"{one['id']}: {node['target']}"
            for one in found
            if one["impact"] in ("serious", "critical")
            for node in one["nodes"]
        ]
