"""A local web page that explains a text as you type, compares methods on a file, and shows reports.

`shelf` has the models, `process` runs `vnait compare`, `page` is the page. Needs gradio: pip install
'vnait[playground]'.
"""

import os
import signal
from collections.abc import Callable, Sequence
from importlib.util import find_spec
from pathlib import Path
from threading import Event, current_thread, main_thread

from vnait.errors import InputError
from vnait.playground.shelf import Shelf

__all__ = ["Shelf", "serve"]

HOST, PORT = "127.0.0.1", 7860
UPLOAD = "20mb"


def serve(
    folders: Sequence[str | Path] = (),
    *,
    host: str = HOST,
    port: int = PORT,
    ready: Callable[[str], None] = lambda address: None,
) -> None:
    """Serve the page until Ctrl-C, which raises KeyboardInterrupt after running comparisons are stopped.

    folders   saved models, or comparisons, whose winner and report are added to the page
    host      by default only this machine can connect; the page makes no requests to others
    ready     called with the address
    """
    if find_spec("gradio") is None:
        raise InputError("the playground needs gradio: pip install 'vnait[playground]'.")
    shelf = Shelf.of(folders)
    os.environ.setdefault("GRADIO_ANALYTICS_ENABLED", "False")
    os.environ.setdefault("HF_HUB_DISABLE_TELEMETRY", "1")
    from vnait.playground import page

    blocks = page.blocks(shelf)
    _, address, _ = blocks.launch(
        server_name=host,
        server_port=port,
        max_file_size=UPLOAD,
        theme=page.theme(),
        css=page.CSS,
        footer_links=[],
        quiet=True,
        share=False,
        ssr_mode=False,
        enable_monitoring=False,
        prevent_thread_lock=True,
    )
    ready(address)
    if current_thread() is main_thread():
        # A kill, or a closed terminal, stops the comparisons as Ctrl-C does.
        for name in ("SIGTERM", "SIGHUP"):
            if hasattr(signal, name):
                signal.signal(getattr(signal, name), signal.default_int_handler)
    try:
        Event().wait()
    finally:
        for comparison in list(shelf.running):
            comparison.stop()
