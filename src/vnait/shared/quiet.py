"""Log lines and progress bars, hidden for a while."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager

from vnait.shared.processes import held


@contextmanager
def logger_at(name: str, level: int) -> Iterator[None]:
    """Lines of this logger from this level on alone, or from its own if that is higher."""
    logger = logging.getLogger(name)
    with held(f"logger {name}", lambda: logger.level, logger.setLevel, max(level, logger.level)):
        yield


@contextmanager
def no_logs(most: int) -> Iterator[None]:
    """No line of any logger up to this level."""
    with held("logs", lambda: logging.root.manager.disable, logging.disable, most):
        yield


@contextmanager
def no_bars() -> Iterator[None]:
    """No progress bars of transformers beside ours."""
    from transformers.utils import logging as transformers_logging

    def show(shown: bool) -> None:
        if shown:
            transformers_logging.enable_progress_bar()
        else:
            transformers_logging.disable_progress_bar()

    with held("bars", transformers_logging.is_progress_bar_enabled, show, False):
        yield
