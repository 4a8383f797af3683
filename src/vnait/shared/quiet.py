"""Log lines and progress bars, hidden for a while."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def logger_at(name: str, level: int) -> Iterator[None]:
    """Lines of this logger from this level on alone, or from its own if that is higher."""
    logger = logging.getLogger(name)
    before = logger.level
    logger.setLevel(max(level, before))
    try:
        yield
    finally:
        logger.setLevel(before)


@contextmanager
def no_logs(most: int) -> Iterator[None]:
    """No line of any logger up to this level."""
    before = logging.root.manager.disable
    logging.disable(most)
    try:
        yield
    finally:
        logging.disable(before)


@contextmanager
def no_bars() -> Iterator[None]:
    """No progress bars of transformers beside ours."""
    from transformers.utils import logging as transformers_logging

    shown = transformers_logging.is_progress_bar_enabled()
    transformers_logging.disable_progress_bar()
    try:
        yield
    finally:
        if shown:
            transformers_logging.enable_progress_bar()
