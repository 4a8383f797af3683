"""What threads and processes share: random numbers, the number of threads, PyTorch's defaults, forks."""

import logging
import multiprocessing
import os
import random
import subprocess
import sys
import threading
import time
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import replace

import numpy as np
import pytest
import torch
from joblib.externals.loky import get_reusable_executor
from torch import nn
from torch.utils._python_dispatch import TorchDispatchMode

from vnait import METHODS, TextClassifier
from vnait.data import Table, vocabulary
from vnait.model import VnaitConfig, VnaitForSequenceClassification
from vnait.shared import processes
from vnait.shared.processes import computing, held, one_thread, threads
from vnait.shared.quiet import logger_at
from vnait.shared.randomness import Draws, draws_itself
from vnait.train import predict
from vnait.train.fitting import fit
from vnait.train.run import Run

TEXTS, LABELS = ["a warm and funny film", "a dull film, from start to finish"] * 8, ["good", "bad"] * 8
TABLE = Table(texts=TEXTS, labels=LABELS, name="made.csv", dropped=0)
RUN = Run(steps=3, batch_size=4, bag=0)


@pytest.fixture(scope="module")
def words() -> vocabulary.Vocabulary:
    return vocabulary.learn(TEXTS, dim=8)


class Foreign(nn.Module):
    """As a user writes a method: with PyTorch's own dropout and draws."""

    causal, per_sentence = False, True

    def __init__(self) -> None:
        super().__init__()
        self.drop = nn.Dropout(0.3)

    def forward(self, vectors, mask):
        at = torch.arange(mask.shape[1]).expand(mask.shape)[..., None].float()
        return self.drop(at + torch.rand_like(at)) if self.training else at


def know_foreign() -> None:
    """Give the method "foreign" the coordinate `Foreign`."""

    def make(size):
        method = METHODS["sinusoidal"].make(size)
        method.coordinates = Foreign()
        return method

    METHODS["foreign"] = replace(METHODS["sinusoidal"], make=make)


@pytest.fixture
def foreign():
    """The name of a method whose coordinate is `Foreign`."""
    know_foreign()
    yield "foreign"
    del METHODS["foreign"]


def weights(words, method="randomized-rope", seed=0, callback=lambda status: None) -> bytes:
    """All weights of a training, as bytes."""
    fitted = fit(replace(RUN, method=method, seed=seed), TABLE, words, callback=callback)
    return b"".join(value.numpy().tobytes() for value in fitted.model.state_dict().values())


@contextmanager
def beside(work):
    """`work` again and again, in another thread."""
    stopped = threading.Event()

    def loop():
        while not stopped.is_set():
            work()

    thread = threading.Thread(target=loop)
    thread.start()
    try:
        yield
    finally:
        stopped.set()
        thread.join()


def global_draws() -> None:
    torch.randn(3), np.random.rand(), random.random()


def states() -> tuple:
    # Not Python's, from which beartype draws in the tests alone.
    return torch.get_rng_state().tolist(), np.random.get_state()[1].tolist()


# --- random numbers ---


@pytest.mark.parametrize("method", ["vnait", "randomized-rope", "foreign"])
def test_a_training_neither_reads_nor_changes_the_global_generators(method, foreign, words):
    results = []
    for seed in (1, 2):
        torch.manual_seed(seed), np.random.seed(seed), random.seed(seed)
        before = states()
        results.append(weights(words, method))
        assert states() == before
    assert results[0] == results[1] != weights(words, method, seed=1)


class Watch(TorchDispatchMode):
    """Fails where an operation draws from PyTorch's global generator."""

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        kwargs = kwargs or {}
        seeded = torch.Tag.nondeterministic_seeded in func.tags and "attention" not in str(func)
        if seeded and getattr(args[0], "device", None) != torch.device("meta"):
            assert kwargs.get("generator") is not None, func
        return func(*args, **kwargs)


@pytest.mark.parametrize("method", sorted(METHODS))
def test_every_method_draws_from_the_generator_of_its_training(method):
    config = VnaitConfig(method=method, vocab_size=9, hidden_size=32, num_hidden_layers=1, max_length=16)
    model = VnaitForSequenceClassification(config).train()
    assert not draws_itself(model)
    ids, draws = torch.tensor([[3, 4, 5, 6], [7, 8, 0, 0]]), Draws(0)
    with draws.inside(), Watch():
        model(ids, labels=torch.tensor([0, 1]))
    assert draws.generators  # of the dropout, at least


def interleave(rng, words, expected, pools) -> None:
    """Some trainings at once, in threads and in processes, beside other users of PyTorch; each must be as it
    is alone.
    """
    picks = [rng.choice(list(expected)) for _ in range(rng.randint(2, 4))]

    def nested(status):
        if status.step == 2:
            assert weights(words, *picks[0]) == expected[picks[0]]

    dtype = rng.choice([torch.float32, torch.float32, torch.float64, torch.bfloat16])
    works = [global_draws, lambda: torch.manual_seed(3)]
    # A user's own model would see the float32 of a training beside it.
    work = rng.choice([*works, one_step] if dtype == torch.float32 else works)
    # A fork beside it may wait forever for the lock of MKL's allocator, which only `computing` sees to.
    with_forks = work is not one_step and "fork" in START_METHODS
    with ExitStack() as stack:
        stack.enter_context(default(dtype=dtype))
        stack.enter_context(beside(work))
        in_threads = stack.enter_context(ThreadPoolExecutor(len(picks)))
        # Anew, so that the fork is of a process whose threads compute.
        forks = [stack.enter_context(pool_of("fork"))] * with_forks
        in_processes = [*forks, *pools]
        futures = []
        for pick in picks:
            place = rng.choice([in_threads, in_threads, *in_processes])
            options = {"callback": nested} if place is in_threads and rng.random() < 0.2 else {}
            futures.append(place.submit(weights, words, *pick, **options))
        for pick, future in zip(picks, futures, strict=True):
            assert future.result(120) == expected[pick], pick
        assert torch.get_default_dtype() == dtype


def pool_of(start_method: str) -> ProcessPoolExecutor:
    context = multiprocessing.get_context(start_method)
    return ProcessPoolExecutor(1, mp_context=context, initializer=begin)


def begin() -> None:
    """What a process begins with in these tests; a fork has it already."""
    torch.set_num_threads(1)
    know_foreign()


def one_step() -> None:
    """As another user of the process trains."""
    model = nn.Sequential(nn.Linear(3, 3), nn.Dropout(0.5))
    model(torch.randn(2, 3)).sum().backward()


START_METHODS = multiprocessing.get_all_start_methods()
forking = pytest.mark.filterwarnings("ignore:.*multi-threaded, use of fork:DeprecationWarning")


@forking
@pytest.mark.timeout(7200)
@pytest.mark.parametrize("count", [4, pytest.param(200, marks=pytest.mark.long)])
def test_trainings_beside_others_are_as_one_after_the_other(count, foreign, words):
    expected = {
        (method, seed): weights(words, method, seed)
        for method in ("vnait", "randomized-rope", "foreign")
        for seed in (0, 1)
    }
    rng = random.Random(0)
    for _ in range(count):
        interleave(rng, words, expected, [])
    if count > 100:
        jobs = get_reusable_executor(2, initializer=begin)  # of joblib, for n_jobs
        with pool_of("spawn") as spawned, pool_of(START_METHODS[-1]) as served, jobs:
            pools = [spawned, served, jobs]
            for pool in pools:  # each imports, which takes minutes on a busy machine
                pool.submit(int).result()
            for _ in range(count // 2):
                interleave(rng, words, expected, pools)
    assert not processes._held


@pytest.mark.parametrize(
    "draw",
    [
        lambda x: nn.functional.dropout(x, 0.3),
        lambda x: nn.functional.scaled_dot_product_attention(x, x, x, dropout_p=0.4),
        lambda x: nn.Dropout2d(0.5)(x[None]),
        lambda x: torch.rand_like(x) + torch.randn_like(x),
        lambda x: torch.randint_like(x, 9),
        lambda x: torch.randperm(9) + torch.randint(5, (9,)),
        lambda x: nn.functional.gumbel_softmax(x),
        lambda x: nn.Linear(3, 4).weight,
        lambda x: nn.init.trunc_normal_(torch.empty(3, 3)),
        lambda x: torch.distributions.Normal(0.0, 1.0).sample((4,)),
    ],
)
def test_all_operations_draw_the_numbers_of_the_same_seed(draw):
    x = torch.ones(2, 5, 4, requires_grad=True)
    with torch.random.fork_rng():
        torch.manual_seed(5)
        expected, after = draw(x), torch.rand(2)
    draws = Draws(5)
    before = torch.get_rng_state()
    with draws.everywhere():
        assert torch.equal(draw(x), expected)
    assert torch.equal(torch.get_rng_state(), before)
    assert torch.equal(torch.rand(2, generator=draws.on(torch.device("cpu"))), after)


def test_loading_draws_nothing(words, tmp_path):
    fitted = fit(RUN, TABLE, words)
    fitted.save(tmp_path / "m")
    before = states()
    with Watch():
        predict.load(tmp_path / "m")
    assert states() == before


def test_threads_that_load_models_leave_the_functions_of_torch_as_they_were(tmp_path):
    config = VnaitConfig(
        vocab_size=9, vector_size=8, hidden_size=8, num_attention_heads=2, num_hidden_layers=1
    )
    VnaitForSequenceClassification(config).save_pretrained(tmp_path)
    before, interval = torch.nn.init.zeros_, sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    try:
        with ThreadPoolExecutor(4) as pool:
            list(pool.map(VnaitForSequenceClassification.from_pretrained, [tmp_path] * 40))
        assert torch.nn.init.zeros_ is before
    finally:
        sys.setswitchinterval(interval)
        torch.nn.init.zeros_ = before


# --- threads ---


def test_the_last_of_several_in_threadsrestores_the_limits():
    """Each entered while another was inside; one that saw the other's limit must not restore that."""
    inside, leave = threading.Barrier(2), threading.Event()
    after = []

    def first():
        with threads(1):
            inside.wait(9)
            leave.wait(9)
        after.append(torch.get_num_threads())

    before = torch.get_num_threads()
    torch.set_num_threads(2)
    try:
        thread = threading.Thread(target=first)
        thread.start()
        inside.wait(9)
        with threads(1):
            leave.set()
            thread.join()
            assert torch.get_num_threads() == 1  # not what the other thread left
        assert torch.get_num_threads() == 2
        probe = threading.Thread(target=lambda: after.append(torch.get_num_threads()))
        probe.start(), probe.join()
        assert after == [2, 2]
    finally:
        torch.set_num_threads(before)


def test_an_error_inside_restores_the_limits():
    before = torch.get_num_threads()
    with threads(before + 2):
        with pytest.raises(KeyError), threads(before + 1), one_thread():
            raise KeyError
        assert torch.get_num_threads() == before + 2
    assert torch.get_num_threads() == before


def test_a_setting_of_the_process_that_several_change():
    values = ["usual"]
    write = values.append
    outer = held("a setting", lambda: values[-1], write, "first")
    inner = held("a setting", lambda: values[-1], write, "second")
    with outer:
        entered = inner.__enter__()
        assert entered == "usual" and values[-1] == "second"
    assert values[-1] == "second"  # the first left, and another is inside
    inner.__exit__(None, None, None)
    assert values[-1] == "usual"


def test_a_logger_that_two_in_threadssilence_speaks_again():
    logger = logging.getLogger("vnait.a test")
    first, second = logger_at(logger.name, logging.ERROR), logger_at(logger.name, logging.ERROR)
    first.__enter__(), second.__enter__()
    first.__exit__(None, None, None), second.__exit__(None, None, None)
    assert logger.level == logging.NOTSET


FORKS = """
import multiprocessing, sys, warnings
warnings.simplefilter("ignore")
import numpy as np, torch
from vnait import TextClassifier, TextRegressor
torch.set_num_threads(2)
X, y = ["a warm and funny film", "a dull film from start to finish"] * 200, ["good", "bad"] * 200
clf = TextClassifier("none", steps=2).fit(X, y)
many = TextClassifier("none", steps=2).fit(X, np.eye(2, dtype=int)[[0, 1] * 200])
many.predict_proba(X)
expected = clf.predict_proba(X)
context = multiprocessing.get_context("fork")
def child(what):
    if what == "fit":
        assert np.array_equal(TextClassifier("none", steps=2).fit(X, y).predict_proba(X), expected)
    elif what == "sets":
        many.predict(X)
    else:
        assert np.array_equal(clf.predict_proba(X), expected)
with context.Pool(1) as pool:
    for what in ("fit", "sets", "predict"):
        pool.apply_async(child, (what,)).get(60)
print("done")
"""


@pytest.mark.long
@pytest.mark.skipif(sys.platform != "linux", reason="forks are Linux's start method")
def test_a_fork_computes_after_its_parent_has(tmp_path):
    script = tmp_path / "forks.py"
    script.write_text(FORKS)
    done = subprocess.run([sys.executable, script], capture_output=True, text=True, timeout=120)
    assert done.stdout == "done\n", done.stderr


def exit_code_of_a_fork(work) -> int:
    """The exit code of a fork: 0 if `work()` is true in it."""
    child = os.fork()
    if child == 0:
        os._exit(not work())
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


@forking
@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no forks")
def test_a_fork_waits_for_what_other_threads_compute():
    inside, done = threading.Event(), threading.Event()

    def compute():
        with computing():
            inside.set()
            time.sleep(0.3)
            done.set()

    with ThreadPoolExecutor(1) as pool:
        pool.submit(compute)
        inside.wait()
        assert exit_code_of_a_fork(done.is_set) == 0
    assert not processes._computing and not processes._forking


@forking
@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no forks")
def test_a_fork_goes_on_if_what_others_compute_takes_too_long(monkeypatch):
    monkeypatch.setattr(processes, "FORK_WAIT", 0.1)
    inside, end = threading.Event(), threading.Event()

    def compute():
        with computing():
            inside.set()
            end.wait()

    def computes_alone() -> bool:
        with computing():
            return list(processes._computing) == [threading.get_ident()]

    with ThreadPoolExecutor(1) as pool:
        pool.submit(compute)
        inside.wait()
        with computing():  # it does not wait for itself, and its child counts on
            assert exit_code_of_a_fork(computes_alone) == 0
        end.set()
    assert not processes._computing


def test_steps_and_predictions_are_done_before_another_thread_forks(words, monkeypatch):
    seen = []
    forward = VnaitForSequenceClassification.forward

    def watched(self, *args, **kwargs):
        seen.append((self.training, threading.get_ident() in processes._computing))
        return forward(self, *args, **kwargs)

    monkeypatch.setattr(VnaitForSequenceClassification, "forward", watched)
    fit(RUN, TABLE, words).probabilities(TEXTS)
    assert set(seen) == {(True, True), (False, True)}


# --- PyTorch's defaults ---


@contextmanager
def default(**settings):
    dtype, device = torch.get_default_dtype(), torch.get_default_device()
    try:
        if "dtype" in settings:
            torch.set_default_dtype(settings["dtype"])
        if "device" in settings:
            torch.set_default_device(settings["device"])
        grad, inference = settings.get("grad", True), settings.get("inference", False)
        with torch.set_grad_enabled(grad), torch.inference_mode(inference):
            yield
    finally:
        torch.set_default_dtype(dtype)
        torch.set_default_device(None if device.type == "cpu" else device)


@pytest.mark.parametrize(
    "settings",
    [
        {"dtype": torch.float64},
        {"dtype": torch.float16},
        {"dtype": torch.bfloat16},
        {"device": "meta"},
        {"grad": False},
        {"inference": True},
    ],
    ids=str,
)
@pytest.mark.parametrize("method", ["vnait", "tfidf"])
def test_defaults_of_other_code_change_no_answer(settings, method, tmp_path):
    texts = TEXTS[:4]
    expected = TextClassifier(method, steps=2).fit(TEXTS, LABELS).predict_proba(texts)
    with default(**settings):
        classifier = TextClassifier(method, steps=2).fit(TEXTS, LABELS)
        assert np.array_equal(classifier.predict_proba(texts), expected)
        classifier.save(tmp_path / "m")
        assert np.array_equal(TextClassifier.load(tmp_path / "m").predict_proba(texts), expected)
        if "dtype" in settings:
            assert torch.get_default_dtype() == settings["dtype"]
