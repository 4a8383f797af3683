"""Wherever cells run, the records are the same; a worker that dies loses its own cell, which runs again."""

import contextlib
import gc
import logging
import os
import signal
import sys
import time
import warnings
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import psutil
import pytest
from joblib import delayed

from test_comparison import METHODS, small, without_times, word_file
from vnait.comparison.engines import ROUNDS, in_workers
from vnait.shared.errors import InputError

pytestmark = pytest.mark.filterwarnings("ignore:subprocess:ResourceWarning")

MANY = {"methods": METHODS, "seeds": 2, "shots": (6,)}


@pytest.fixture(scope="module")
def words(tmp_path_factory) -> str:
    return word_file(tmp_path_factory.mktemp("vectors"))


@pytest.fixture(scope="module")
def lines(words, tmp_path_factory) -> list[str]:
    return lines_of(small(words, tmp_path_factory.mktemp("here"), **MANY))


def lines_of(found) -> list[str]:
    return [without_times(record).line() for record in found.records]


@pytest.fixture(autouse=True)
def _elsewhere(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)  # where jobs leave their files


@pytest.fixture(scope="module")
def cluster():
    """Three nodes of Ray on this machine, a core each."""
    ray = pytest.importorskip("ray")
    from ray.cluster_utils import Cluster

    made = Cluster(initialize_head=True, head_node_args={"num_cpus": 1, "include_dashboard": False})
    for _ in range(2):
        made.add_node(num_cpus=1)
    ray.init(address=made.address, log_to_driver=False, logging_level=logging.ERROR)
    yield made
    ray.shutdown()
    made.shutdown()


@pytest.fixture(params=["local", *(pytest.param(name, marks=pytest.mark.long) for name in ("slurm", "ray"))])
def backend(request):
    if request.param == "slurm":
        pytest.importorskip("submitit")
    if request.param == "ray":
        request.getfixturevalue("cluster")
    yield request.param
    gc.collect()  # submitit does not wait for its processes, of which Python warns


def calls_of(function, count=6):
    return [delayed(function)(number) for number in range(count)]


def noting(folder: Path, dies=()):
    """A function that notes its calls in the folder; the first call with a number of `dies` kills its worker.
    It is not named in a module, which a worker could not import.
    """

    def note(number: int) -> int:
        mark = folder / str(number)
        first = not mark.exists()
        with mark.open("a") as file:
            file.write("x")
        if number in dies and first:
            os.kill(os.getpid(), signal.SIGKILL)
        time.sleep(0.2)
        return number * number

    return note


def noted(folder: Path) -> Counter[int]:
    return Counter({int(mark.name): len(mark.read_text()) for mark in folder.iterdir()})


def test_a_dead_worker_loses_its_own_cell_which_runs_again(backend, tmp_path):
    folder = tmp_path / "calls"
    folder.mkdir()
    found = list(in_workers(calls_of(noting(folder, dies=[3])), jobs=2, backend=backend))
    assert sorted(found) == [number * number for number in range(6)]
    calls = noted(folder)
    assert calls[3] == max(calls.values()) == 2
    if backend != "local":  # loky ends all its workers when one dies
        assert calls.total() == 7


def test_a_cell_that_always_kills_its_worker_is_one_sentence(tmp_path):
    def always(number: int) -> None:
        os.kill(os.getpid(), signal.SIGKILL)

    with pytest.raises(InputError, match=rf"^workers died {ROUNDS} times before a run was done"):
        list(in_workers(calls_of(always, count=2), jobs=2))


@pytest.mark.timeout(60)  # where its warning is an error, joblib's thread ends and the results never come
def test_workers_that_grow_are_replaced_in_silence():
    def grow(number: int) -> int:
        vars(sys).setdefault("kept", []).append(bytearray(400_000_000))
        time.sleep(1.2)  # joblib looks at the memory once a second
        return number

    with warnings.catch_warnings(record=True) as said:
        assert sorted(in_workers(calls_of(grow, count=4), jobs=2)) == list(range(4))
    assert not said


@pytest.mark.timeout(120)  # with workers that all threads share, two wait for each other
def test_threads_with_other_numbers_of_workers_end_with_their_own_results(tmp_path):
    def slow(number: int) -> int:
        time.sleep(0.05)
        return number

    def refuse(number: int) -> None:
        raise InputError(f"number {number} is refused.")

    with ThreadPoolExecutor(3) as threads:
        two, three = (
            threads.submit(lambda jobs: list(in_workers(calls_of(slow, count=12), jobs=jobs)), jobs)
            for jobs in (2, 3)
        )
        wrong = threads.submit(lambda: list(in_workers(calls_of(refuse), jobs=2)))
        assert sorted(two.result()) == sorted(three.result()) == list(range(12))
        with pytest.raises(InputError, match="is refused"):
            wrong.result()


def test_as_many_run_at_a_time_as_the_process_has_cores_for(monkeypatch):
    """Not as many as the machine has; joblib's variable stands for an affinity or a container's quota."""
    monkeypatch.setenv("LOKY_MAX_CPU_COUNT", "1")
    monkeypatch.setattr(os, "cpu_count", lambda: 4)
    assert set(in_workers([delayed(os.getpid)()] * 9)) == {os.getpid()}


def test_workers_serve_again_in_their_thread():
    pids = {jobs: set(in_workers([delayed(os.getpid)()] * 9, jobs=2, later=jobs)) for jobs in (2, 5)}
    assert len(pids[2] | pids[5]) <= 2 and os.getpid() not in pids[2]


def test_wrong_input_in_a_worker_is_the_same_sentence_here(backend):
    def refuse(number: int) -> None:
        raise InputError(f"number {number} is refused.")

    with pytest.raises(InputError, match=r"^number 0 is refused\.$"):
        list(in_workers(calls_of(refuse, count=1), backend=backend))


def test_after_an_error_nothing_runs_on(tmp_path, monkeypatch):
    pytest.importorskip("submitit")
    monkeypatch.chdir(tmp_path)

    def refuse(number: int) -> None:
        if number:
            time.sleep(60)
        raise InputError(f"number {number} is refused.")

    before = psutil.Process().children(recursive=True)
    ours = signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell's "&" lets processes ignore it
    try:
        with pytest.raises(InputError, match=r"^number 0 is refused\.$"):
            list(in_workers(calls_of(refuse, count=2), jobs=2, backend="slurm"))
    finally:
        signal.signal(signal.SIGINT, ours)
    gc.collect()
    assert not list(tmp_path.glob("**/*.pkl"))
    left = [one for one in psutil.Process().children(recursive=True) if one not in before]
    assert not psutil.wait_procs(left, timeout=10)[1]


def test_relative_paths_mean_the_same_in_every_worker(backend, tmp_path):
    home = os.getcwd()
    found = in_workers([delayed(os.getcwd)() for _ in range(3)], jobs=2, backend=backend)
    assert set(found) == {home}


@pytest.mark.long
def test_a_comparison_is_the_same_everywhere(backend, words, lines, tmp_path):
    found = small(words, tmp_path / "out", backend=backend, **MANY | {"jobs": 2})
    assert lines_of(found) == lines
    assert not list((tmp_path / "runs").glob("**/*.pkl"))  # of jobs


@pytest.mark.long
def test_a_node_that_dies_in_the_middle_loses_one_cell(cluster, words, lines, tmp_path, caplog):
    node = cluster.add_node(num_cpus=1)

    def callback(done, total, record):
        if done == 3:
            cluster.remove_node(node, allow_graceful=False)

    with caplog.at_level(logging.WARNING, logger="vnait"):
        found = small(words, tmp_path / "out", backend="ray", callback=callback, **MANY | {"jobs": None})
    assert lines_of(found) == lines
    again = [record.getMessage() for record in caplog.records if "workers died" in record.getMessage()]
    assert again in ([], ["workers died; 1 runs start again"])


@pytest.mark.parametrize(("backend", "package"), [("ray", "ray"), ("slurm", "submitit")])
def test_a_package_that_is_missing_is_named(backend, package, monkeypatch):
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(InputError, match=rf"pip install 'vnait\[{backend}\]'"):
        list(in_workers(calls_of(abs), backend=backend))


ORPHANS = """
import os, signal, sys, time
from pathlib import Path
from joblib import delayed
from vnait.comparison.engines import in_workers

signal.signal(signal.SIGHUP, signal.SIG_DFL)  # nohup ignores it, and children inherit that

def sleep(folder):
    Path(folder, str(os.getpid())).touch()
    time.sleep(100)

list(in_workers([delayed(sleep)(sys.argv[1])] * 3, jobs=2))
"""


def test_workers_leave_an_interrupt_to_their_parent():
    answers = list(in_workers([delayed(signal.getsignal)(signal.SIGINT)] * 2, jobs=2))
    assert answers == [signal.SIG_IGN] * 2


@pytest.mark.skipif(os.name == "nt", reason="its processes have no such parents")
@pytest.mark.slow
@pytest.mark.parametrize("number", ["SIGKILL", "SIGTERM", "SIGHUP"])
def test_workers_end_with_their_parent(number, tmp_path):
    (tmp_path / "pids").mkdir()
    script = tmp_path / "parent.py"
    script.write_text(ORPHANS)
    parent = psutil.Popen([sys.executable, script, tmp_path / "pids"])
    try:
        while len(list((tmp_path / "pids").iterdir())) < 2:
            assert parent.poll() is None
            time.sleep(0.05)
        children = parent.children(recursive=True)
        parent.send_signal(getattr(signal, number))
        assert parent.wait(20) == -getattr(signal, number)
        ended = time.time() + 5
        while alive := [child for child in children if running(child)]:
            assert time.time() < ended, alive
            time.sleep(0.05)
    finally:
        with contextlib.suppress(psutil.NoSuchProcess):
            parent.kill()


def running(process: psutil.Process) -> bool:
    with contextlib.suppress(psutil.NoSuchProcess):
        return process.status() != psutil.STATUS_ZOMBIE
    return False
