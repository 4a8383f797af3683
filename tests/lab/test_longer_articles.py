"""Articles of twice the training length: what is read, and when the verdict holds."""

from types import SimpleNamespace

from vnait.data import Table
from vnait_lab.runs import ahead
from vnait_lab.runs.longer_articles import METHODS_RUN, halves, verdict


def test_a_text_is_cut_and_its_halves_change_places():
    table = Table(texts=["a b c d e f", "g h i"], labels=["x", "y"], name="made", dropped=0)
    found = halves(table, 4)
    assert found.texts == ["a b c d", "c d a b", "g h i", "h i g"]
    assert found.labels == ["in order", "moved"] * 2


def records(**scores):
    return [
        SimpleNamespace(
            method=method,
            seed=seed,
            metrics={f"accuracy_{length}": scores.get(method, 0.5) + seed / 1000 for length in (256, 512)},
        )
        for method in METHODS_RUN
        for seed in range(3)
    ]


def test_the_verdict_is_undecided_if_the_control_answers():
    assert verdict(records(vnait=0.9)).word == "confirmed"
    assert verdict(records(vnait=0.9, none=0.7)).word == "undecided"


def test_ahead_of_all_others():
    own = {0: 0.7, 1: 0.72, 2: 0.71}
    behind = {seed: score - 0.1 for seed, score in own.items()}
    assert ahead({"a": own, "b": behind}, "a").word == "confirmed"
    assert ahead({"a": own, "b": behind, "c": own}, "a").word == "undecided"
    assert ahead({"a": own, "b": behind, "c": own}, "b").word == "refuted"
