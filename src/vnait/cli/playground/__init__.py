"""A local web page that explains a text as you type, by two models side by side.

`registry` has the models, `page` is the page. Needs gradio: pip install 'vnait[playground]'.
"""

import os
import socket
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from threading import Event
from typing import Any

from vnait.cli.playground.registry import Registry
from vnait.shared.errors import InputError, extra

__all__ = ["Registry", "serve"]

HOST, PORT = "127.0.0.1", 7860
# Nothing that the page shows may ask another address, or be led to one.
POLICY = "frame-src 'none'; object-src 'none'; base-uri 'self'; form-action 'self'; connect-src 'self'"


def serve(
    folders: Sequence[str | Path] = (),
    *,
    host: str = HOST,
    port: int = PORT,
    names: Sequence[str] = (),
    ready: Callable[[str], None] = lambda address: None,
) -> None:
    """Serve the page until Ctrl-C, which raises KeyboardInterrupt.

    folders   saved models, or comparisons, whose winner is shown
    host      by default only this machine can connect; the page makes no requests to others
    names     more names by which the page may be asked for; without, those of this machine. Another site that
              gives itself this machine's address is refused
    ready     called with the address
    """
    os.environ.setdefault("GRADIO_ANALYTICS_ENABLED", "False")  # before gradio is imported
    os.environ.setdefault("HF_HUB_DISABLE_TELEMETRY", "1")
    with extra("playground"):
        import gradio  # noqa: F401
    _check_names(names)
    _check_port(host, port)
    registry = Registry.of(folders)
    from starlette.middleware import Middleware
    from starlette.middleware.trustedhost import TrustedHostMiddleware

    from vnait.cli.playground import page

    blocks = page.blocks(registry)
    guards = [
        Middleware(TrustedHostMiddleware, allowed_hosts=[*_hosts(host), *names], www_redirect=False),
        Middleware(_Guarded),
    ]
    _, address, _ = blocks.launch(
        server_name=host,
        server_port=port,
        theme=page.theme(),
        css=page.CSS,
        footer_links=[],
        quiet=True,
        share=False,
        ssr_mode=False,
        enable_monitoring=False,
        max_file_size=1,  # byte: the page has no file to upload
        app_kwargs={"middleware": guards},
        prevent_thread_lock=True,
    )
    ready(address)
    Event().wait()


def _check_names(names: Sequence[str]) -> None:
    """Refuse names that are patterns which the server does not know."""
    for name in names:
        if "*" in name.removeprefix("*.") or not name:
            raise InputError(
                f"--name {name!r} is not possible; give a whole name, or *.example.org for all below one."
            )


def _check_port(host: str, port: int) -> None:
    if ":" in host:
        raise InputError(f"--host {host} is an IPv6 address; give an IPv4 address, or 0.0.0.0 for all.")
    with socket.socket() as tried:
        tried.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            tried.bind((host, port))
        except OSError as error:
            raise InputError(
                f"{host}:{port} can't be served: {error.strerror}; give another --port."
            ) from error


def _hosts(host: str) -> list[str]:
    """The names of this machine that lead to the address listened on."""
    names = ["localhost", "127.0.0.1", host]
    if host == "0.0.0.0":
        names += [socket.gethostname(), socket.getfqdn()]
        with suppress(OSError):  # a machine that does not know its own name
            names += socket.gethostbyname_ex(socket.gethostname())[2]
    return list(dict.fromkeys(names))


class _Guarded:
    """Every answer with the policy, an ASGI middleware."""

    def __init__(self, app: Any) -> None:
        self.app = app

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        async def guarded(message: Any) -> None:
            if message["type"] == "http.response.start":
                message["headers"] = [*message["headers"], (b"content-security-policy", POLICY.encode())]
            await send(message)

        await self.app(scope, receive, guarded)
