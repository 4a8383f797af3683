"""Several processes of one training, started by torchrun or `accelerate launch`; and what the threads of one
process share: the number of threads, on which the last digits of sums depend, PyTorch's defaults, and forks.
"""

from __future__ import annotations

import os
import shutil
import signal
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from datetime import timedelta
from pathlib import Path
from typing import Any, TypeVar

Made = TypeVar("Made")
LOOK = 0.5  # seconds between two looks at a parent
FORK_WAIT = 10.0  # seconds that a fork waits for other threads at most, and they for it
WAIT = timedelta(days=1)  # for the first process, which may take long to read; by default some ten minutes


def on_cpu() -> bool:
    """Whether there is no other device. Accelerate joins processes on CPUs only with `cpu=True`."""
    import torch

    return not torch.accelerator.is_available()


def is_first() -> bool:
    """Whether this process is the first of all, which alone writes files and prints."""
    return os.environ.get("RANK", "0") == "0"


def once_per_node(make: Callable[[], Made]) -> Made:
    """What `make` returns, made by the first process of each machine. All of its processes map the arrays of
    that into their memory, which they share: an array is there once, and only as far as it was read.
    """
    if os.environ.get("WORLD_SIZE", "1") == "1":
        return make()
    import joblib
    from accelerate import PartialState
    from accelerate.utils import gather_object

    state = PartialState(cpu=on_cpu(), timeout=WAIT)
    folder = None
    try:
        if state.is_local_main_process:
            folder = tempfile.mkdtemp(prefix="vnait-")
            joblib.dump(make(), Path(folder, "made"))
        folders = gather_object([folder])  # waits for the first processes
        source = folders[state.process_index - state.local_process_index]
        made: Made = joblib.load(Path(source, "made"), mmap_mode="r")
        state.wait_for_everyone()
    finally:
        if folder is not None:
            shutil.rmtree(folder)  # what is mapped stays
    return made


_lock, _loading = threading.RLock(), threading.RLock()
_is_fork = False
_held: dict[str, tuple[Any, list[Any]]] = {}  # by the setting's name: what it was, and what each user wants


_gate = threading.Condition()
_computing: Counter[int] = Counter()  # by thread: how many blocks of `computing` it is in
_forking: set[int] = set()  # the threads that wait for these


@contextmanager
def computing() -> Iterator[None]:
    """PyTorch computes inside, and no other thread forks meanwhile: MKL's allocator takes a lock that a child
    would wait for forever, as no thread of the child gives it back. Keep it short: a fork waits for the end.
    """
    me = threading.get_ident()
    with _gate:
        _gate.wait_for(lambda: not _forking or me in _computing, FORK_WAIT)
        _computing[me] += 1
    try:
        yield
    finally:
        with _gate:
            _computing[me] -= 1
            if not _computing[me]:
                del _computing[me]
            _gate.notify_all()


def _before_fork() -> None:
    _gate.acquire()
    _forking.add(threading.get_ident())
    _gate.wait_for(lambda: not _computing.keys() - {threading.get_ident()}, FORK_WAIT)


def _after_fork() -> None:
    _forking.discard(threading.get_ident())
    with suppress(RuntimeError):  # an interrupt came before the lock
        _gate.notify_all()
        _gate.release()


def _forked() -> None:
    """In a child: a lock may be held by a thread that it does not have."""
    global _lock, _loading, _is_fork, _gate
    _lock, _loading, _is_fork = threading.RLock(), threading.RLock(), True
    _gate = threading.Condition()
    _forking.clear()
    for thread in _computing.keys() - {threading.get_ident()}:
        del _computing[thread]


if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_before_fork, after_in_parent=_after_fork, after_in_child=_forked)


@contextmanager
def held(name: str, read: Callable[[], Any], write: Callable[[Any], object], value: Any) -> Iterator[Any]:
    """A setting of the whole process has this value inside. It yields what the setting was before.

    Of several threads the last one that leaves restores it: if each restored what it saw, one could leave
    behind what another one had set for a while.
    """
    with _lock:
        before, values = _held.setdefault(name, (read(), []))
        values.append(value)
        write(value)
    try:
        yield before
    finally:
        with _lock:
            del values[len(values) - 1 - values[::-1].index(value)]
            if not values:
                del _held[name]
            write(values[-1] if values else before)


@contextmanager
def loading() -> Iterator[None]:
    """One thread at a time inside. While transformers loads a model, torch.nn.init has functions that leave
    loaded weights alone; of two threads the last one would put back those of the first, for good.
    """
    with _loading:
        yield


def cores() -> int:
    """How many threads PyTorch may use; 1 in a fork, which would wait for those of its parent forever."""
    import torch

    return 1 if _is_fork else torch.get_num_threads()


_inside = threading.local()  # count: the threads of the outer block in this thread


@contextmanager
def threads(count: int) -> Iterator[None]:
    """So many threads inside, as many as before outside: a result must not depend on the machine's cores.

    Threads that compute at once should ask for the same number, since some libraries have one for all.
    """
    import torch
    from threadpoolctl import ThreadpoolController  # type: ignore[import-untyped]  # of scikit-learn

    torch.get_num_threads()  # the first call in a thread sets its number
    pools = ThreadpoolController()
    # OpenMP has a number for each thread of Python. One that first computes here would see another's limit.
    openmp = pools.select(user_api="openmp").lib_controllers
    outer, new = getattr(_inside, "count", None), "threads" in _held
    counts = [library.num_threads for library in openmp]
    with ExitStack() as stack:
        before = stack.enter_context(held("threads", torch.get_num_threads, torch.set_num_threads, count))
        for library in pools.select(user_api="blas").lib_controllers:
            stack.enter_context(
                held(library.filepath, library.get_num_threads, library.set_num_threads, count)
            )
        _inside.count = count
        try:
            for library in openmp:
                library.set_num_threads(count)
            yield
        finally:
            _inside.count = outer
            stack.close()
            for library, number in zip(openmp, counts, strict=True):
                library.set_num_threads(before if new and outer is None else number)


@contextmanager
def usual_torch() -> Iterator[None]:
    """PyTorch's own defaults inside: float32, the CPU, gradients. Other code in a process may change them."""
    import torch

    with ExitStack() as stack:
        with _lock:
            # float32 may be there for as long as another thread is inside.
            if "dtype" in _held or torch.get_default_dtype() != torch.float32:
                stack.enter_context(
                    held("dtype", torch.get_default_dtype, torch.set_default_dtype, torch.float32)
                )
        if torch.get_default_device().type != "cpu":
            stack.enter_context(torch.device("cpu"))
        stack.enter_context(torch.inference_mode(False))
        stack.enter_context(torch.enable_grad())
        yield


def begin_worker(parent: int) -> None:
    """Called once by a child of the process `parent`, before its work.

    The child ends within a second of its parent, however that ended: a signal that nothing can catch leaves
    no time to stop the workers. Ctrl-C, which a terminal sends to both, is left to the parent, which ends its
    workers.
    """
    signal.signal(signal.SIGINT, signal.SIG_IGN)

    def watch() -> None:
        while os.getppid() == parent:
            time.sleep(LOOK)
        os._exit(1)

    threading.Thread(target=watch, name="vnait-parent", daemon=True).start()


@contextmanager
def one_thread() -> Iterator[None]:
    """One thread inside: a result must not depend on the runs beside it either."""
    with threads(1):
        yield
