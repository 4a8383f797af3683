"""Where runs are computed: in processes here, on a Ray cluster, or as jobs of Slurm."""

from __future__ import annotations

import logging
import os
import threading
import time
import warnings
from collections import Counter
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping
from concurrent.futures import FIRST_COMPLETED, Future, wait
from contextlib import AbstractContextManager, closing, suppress
from functools import partial
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

from vnait.shared.errors import InputError, extra
from vnait.shared.processes import begin_worker, held

if TYPE_CHECKING:
    from joblib.externals.loky.process_executor import ProcessPoolExecutor

logger = logging.getLogger("vnait")

Call = tuple[Callable[..., Any], tuple[Any, ...], dict[str, Any]]  # of joblib's `delayed`
Calls = Mapping[int, Call]
Results = Generator[tuple[int, Any], None, None]
ROUNDS = 3  # tries after which no run was done and workers died
SLURM = Path("runs/slurm")  # the files of jobs, which the nodes must see
QUEUED = 100  # jobs of Slurm at a time, unless --jobs has a number: each has a copy of its data in SLURM
DAY = 24 * 60  # minutes that a job may take, unless SBATCH_TIMELIMIT has a number
IDLE = 300  # seconds after which a worker process without a call ends
THREADS = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")
WARNINGS = "PYTHONWARNINGS"
POLL_SECONDS = 0.5  # seconds between two looks at the jobs


def in_workers(
    calls: Iterable[Call],
    *,
    jobs: int | None = None,
    cores: int = 1,
    backend: str = "local",
    later: int = 0,
) -> Iterator[Any]:
    """The results of joblib's delayed calls as they arrive. What a dead worker had is called again.

    jobs      calls at a time; None: as many as this process has cores for
    cores     of each call
    backend   a name in `ENGINES`
    later     how many calls will follow, for which there are workers from the beginning

    An InputError of a call is raised here. InputError if no more runs come to an end since workers die.
    """
    if backend not in ENGINES:
        raise InputError(f"backend {backend!r} is not known; give one of {', '.join(ENGINES)}.")
    left = dict(enumerate(calls))
    if backend == "local":
        jobs = min(jobs or _at_once(cores), max(len(left), later))
    return _rounds(left, partial(ENGINES[backend], jobs=jobs, cores=cores))


def _at_once(cores: int) -> int:
    """How many calls of so many cores fit: of those that the affinity and a container's quota leave."""
    from joblib import cpu_count

    return max(1, cpu_count() // cores)


def _rounds(left: dict[int, Call], engine: Callable[[Calls], Results]) -> Iterator[Any]:
    fruitless = 0
    while left:
        before = len(left)
        with closing(engine(left.copy())) as results:
            for index, result in results:
                if isinstance(result, InputError):
                    raise result
                del left[index]
                yield result
        fruitless = fruitless + 1 if len(left) == before else 0
        if fruitless == ROUNDS:
            raise InputError(
                f"workers died {ROUNDS} times before a run was done, as they do without enough memory. Give "
                "the same command again, with fewer --jobs or more memory; what is done is recorded."
            )
        if left:
            logger.warning("workers died; %d runs start again", len(left))


def _call(
    index: int, home: str, function: Callable[..., Any], *arguments: Any, **options: Any
) -> tuple[int, Any]:
    """Call the function in a worker, in the folder where the command runs, for relative paths."""
    with suppress(OSError):
        os.chdir(home)
    try:
        return index, function(*arguments, **options)
    except InputError as error:
        return index, error


def _quiet_tracker() -> AbstractContextManager[object]:
    """loky's process that tracks semaphores, started here, warns of none that it removes after a kill."""
    before = os.environ.get(WARNINGS, "")
    rule = "ignore:resource_tracker:UserWarning"
    value = f"{before},{rule}" if before else rule  # the last rule comes first

    def write(value: str) -> None:
        os.environ[WARNINGS] = value
        if not value:
            del os.environ[WARNINGS]

    return held(WARNINGS, lambda: before, write, value)


class _Workers(threading.local):
    """The worker processes of each thread that compares, which its next calls use again.

    Not those of `joblib.Parallel`, which all threads of a process share: two threads that want different
    numbers of them wait for each other forever, and an error in one ends the calls of the other.
    """

    executor: ProcessPoolExecutor | None = None
    kind: tuple[int, ...] = ()

    def of(self, count: int, cores: int) -> ProcessPoolExecutor:
        """So many workers, each with threads for so many cores."""
        from joblib.externals.loky.process_executor import ProcessPoolExecutor

        kind = (os.getpid(), count, cores)  # a fork can't use the workers of its parent
        if self.executor is None or self.kind != kind:
            self.end()
            self.kind = kind
            with _quiet_tracker():
                self.executor = ProcessPoolExecutor(
                    count,
                    timeout=IDLE,
                    initializer=begin_worker,
                    initargs=(os.getpid(),),
                    env={name: os.environ.get(name, str(cores)) for name in THREADS},
                )
        return self.executor

    def end(self) -> None:
        """End the workers, and what they compute."""
        if self.executor is not None and self.kind[0] == os.getpid():
            self.executor.shutdown(kill_workers=True)
        self.executor = None


_workers = _Workers()


def _local(calls: Calls, jobs: int | None, cores: int) -> Results:
    """In processes here. A dead worker ends them all, so that the runs of the others are lost too."""
    from joblib.externals.loky.process_executor import BrokenProcessPool

    if jobs == 1 or len(calls) == 1:
        for index, (function, arguments, options) in calls.items():
            yield _call(index, os.getcwd(), function, *arguments, **options)
        return
    # A worker is replaced if it grew by 300 MB, as one with a pretrained model does, or was idle; nothing is
    # lost. The executor's thread warns; where warnings are errors, that thread ends.
    warnings.filterwarnings("ignore", "A worker stopped while some jobs", UserWarning)
    count = jobs or len(calls)
    executor = _workers.of(count, cores)
    waiting = iter(calls.items())
    running = set[Future[Any]]()

    def send() -> bool:
        """Send what fits; whether the workers are alive."""
        try:
            # No more than the executor sends to its workers: it stumbles over others at its end.
            for index, (function, arguments, options) in islice(waiting, 2 * count - len(running)):
                running.add(executor.submit(_call, index, os.getcwd(), function, *arguments, **options))
        except BrokenProcessPool:
            return False
        return True

    alive, ended = True, False
    try:
        while True:
            alive = alive and send()
            if not running:
                break
            done, running = wait(running, return_when=FIRST_COMPLETED)
            for future in done:
                if isinstance(future.exception(), BrokenProcessPool):
                    alive = False
                else:
                    yield future.result()
        ended = alive
    finally:  # also after an error, or where the caller stops
        if not ended:
            _workers.end()


def _ray(calls: Calls, jobs: int | None, cores: int) -> Results:
    """On the cluster of RAY_ADDRESS, or on that of this machine. Arguments that calls share are sent once a
    node.
    """
    with extra("ray"):
        import ray
        from ray.exceptions import LocalRayletDiedError, NodeDiedError, OutOfMemoryError, WorkerCrashedError

    if not ray.is_initialized():
        ray.init(log_to_driver=False, logging_level=logging.ERROR)
    task = ray.remote(num_cpus=cores, max_retries=0)(_call)
    values = [value for _, arguments, _ in calls.values() for value in arguments]
    uses = Counter(map(id, values))
    sent = {id(value): ray.put(value) for value in values if uses[id(value)] > 1}

    def start(index: int, call: Call) -> Any:
        function, arguments, options = call
        handles = [sent.get(id(value), value) for value in arguments]
        return task.remote(index, os.getcwd(), function, *handles, **options)

    waiting = iter(calls.items())
    running = [start(index, call) for index, call in islice(waiting, jobs)]
    try:
        while running:
            (done,), running = ray.wait(running)
            with suppress(LocalRayletDiedError, NodeDiedError, OutOfMemoryError, WorkerCrashedError):
                yield ray.get(done)
            running += [start(index, call) for index, call in islice(waiting, 1)]
    finally:  # after an error, or where the caller stops
        for pending in running:
            ray.cancel(pending)


def _slurm(calls: Calls, jobs: int | None, cores: int) -> Results:
    """As an array of jobs, by submitit; in processes of this machine if it has no Slurm."""
    with extra("slurm"):
        from submitit import AutoExecutor
        from submitit.core.utils import FailedJobError, UncompletedJobError

    executor = AutoExecutor(folder=SLURM)
    executor.update_parameters(name="vnait", cpus_per_task=cores, timeout_min=DAY)
    here = executor.cluster != "slurm"
    waiting = iter(calls.items())

    def start(count: int) -> list[Any]:
        if not (batch := list(islice(waiting, count))):
            return []
        with executor.batch():
            return [
                executor.submit(partial(_call, index, os.getcwd(), function, *arguments, **options))
                for index, (function, arguments, options) in batch
            ]

    running = start(jobs or (_at_once(cores) if here else QUEUED))
    try:
        while running:
            time.sleep(POLL_SECONDS)
            done = [job for job in running if job.done()]
            for job in done:
                try:
                    yield job.result()
                except FailedJobError:
                    raise
                except UncompletedJobError as error:
                    logger.warning("%s", str(error).splitlines()[0])
                _forget(job)
            running = [job for job in running if job not in done] + start(len(done))
    finally:  # after an error, or where the caller stops
        for job in running:
            job.cancel()
            _forget(job)


def _forget(job: Any) -> None:
    for file in (job.paths.submitted_pickle, job.paths.result_pickle):
        file.unlink(missing_ok=True)


ENGINES: dict[str, Callable[..., Results]] = {"local": _local, "ray": _ray, "slurm": _slurm}
