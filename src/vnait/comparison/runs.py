"""The one runner: runs by key, read from a file of records or computed by workers and appended."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any, TypeVar

from vnait.comparison.engines import in_workers
from vnait.results.record import Record, appending, read
from vnait.shared.files import locked

logger = logging.getLogger("vnait")

Job = TypeVar("Job")  # the caller's own description of a run

Callback = Callable[[int, int, Record | None], None]  # (runs done, all runs, the last record)


def run_all(
    path: str | Path,
    runs: Mapping[str, Job],
    calls: Callable[[list[Job]], Iterable[Any]],
    *,
    jobs: int | None = None,
    cores: int = 1,
    backend: str = "local",
    callback: Callback = lambda done, total, record: None,
) -> list[Record]:
    """The records of all runs, in order: read from `path` by key, else run by workers and appended.

    runs       by the key of their record
    calls      the runs that are left -> joblib's delayed calls, each of which returns one record or a list
               of them; it may raise before a file is opened
    jobs, cores, backend   of the workers: `engines.in_workers`

    Each record is on the disk before the next is awaited, so a stopped run loses only unfinished runs.
    InputError if another process computes runs for the same folder.
    """
    path = Path(path)
    with locked(path.parent):
        done = {record.key: record for record in read(path) if record.key in runs} if path.is_file() else {}
        if done:
            logger.info("%d of %d runs are done already (%s)", len(done), len(runs), path)
        left = [job for key, job in runs.items() if key not in done]
        results = in_workers(calls(left) if left else [], jobs=jobs, cores=cores, backend=backend)
        callback(len(done), len(runs), None)
        with appending(path) as append:
            for result in results:
                for record in result if isinstance(result, list) else [result]:
                    append(record)
                    done[record.key] = record
                    callback(len(done), len(runs), record)
        return [done[key] for key in runs]
