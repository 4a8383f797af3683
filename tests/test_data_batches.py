"""Batches, splits and shots: laws that hold for any lengths, labels and seeds."""

import doctest
import importlib
from collections import Counter

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from helpers import python
from vnait.data import Table, batches, collate, repeated, shots, split
from vnait.data.rows import split_groups
from vnait.shared.errors import InputError

LENGTHS = st.lists(st.integers(1, 500), max_size=400)
SEEDS = st.integers(0, 2**40)
# Every class at least twice, the classes in any order.
LABELS = st.dictionaries(st.sampled_from("abcd好"), st.integers(2, 30), min_size=2).flatmap(
    lambda sizes: st.permutations([name for name, size in sizes.items() for _ in range(size)])
)


# Batches


@settings(deadline=None)
@given(lengths=LENGTHS, size=st.integers(1, 9), seed=SEEDS, epoch=st.integers(0, 99))
def test_every_row_is_in_one_batch_and_no_batch_is_too_large(lengths, size, seed, epoch):
    made = batches(lengths, batch_size=size, seed=seed, epoch=epoch)
    assert sorted(row for batch in made for row in batch) == list(range(len(lengths)))
    assert all(1 <= len(batch) <= size for batch in made)
    assert len(made) == -(-len(lengths) // size)
    assert all(type(row) is int for batch in made for row in batch)


@settings(deadline=None)
@given(lengths=LENGTHS, size=st.integers(1, 9), seed=SEEDS)
def test_batches_follow_from_their_arguments_alone(lengths, size, seed):
    np.random.seed(0)
    one = batches(lengths, batch_size=size, seed=seed, epoch=3)
    np.random.seed(1)
    assert batches(np.array(lengths, dtype=int), batch_size=size, seed=seed, epoch=3) == one


def test_another_process_makes_the_same_batches():
    code = "from vnait.data import batches; print(batches(list(range(40)), batch_size=7, seed=5, epoch=2))"
    assert python(code).strip() == str(batches(list(range(40)), batch_size=7, seed=5, epoch=2))


def test_epochs_and_seeds_differ():
    lengths = [7] * 64
    made = [batches(lengths, batch_size=8, seed=seed, epoch=epoch) for seed in range(3) for epoch in range(3)]
    assert len({str(one) for one in made}) == 9
    assert len({str(sorted(map(sorted, one))) for one in made}) == 9  # other company, not only another order


def test_little_is_spent_on_padding():
    lengths = np.random.default_rng(0).integers(1, 400, 6000).tolist()
    made = batches(lengths, batch_size=16, seed=0, epoch=0)
    padded = sum(max(lengths[row] for row in batch) * len(batch) for batch in made)
    assert sum(lengths) / padded > 0.97  # about 0.53 without sorting


def test_the_short_do_not_come_first():
    made = batches(list(range(1, 401)), batch_size=8, seed=0, epoch=0)  # one chunk
    shortest = [min(batch) for batch in made]
    assert abs(np.corrcoef(range(len(made)), shortest)[0, 1]) < 0.4  # 1 where batches stay sorted


def test_companions_change_between_epochs_of_long_data():
    lengths = list(range(6000))  # sorted as a whole, every epoch would have the same batches
    first, second = ({frozenset(b) for b in batches(lengths, batch_size=16, seed=0, epoch=e)} for e in (0, 1))
    assert not first & second


@pytest.mark.parametrize(
    ("wrong", "said"),
    [({"batch_size": 0}, "batch_size is 0"), ({"seed": -1}, "seed is -1"), ({"epoch": -2}, "epoch is -2")],
)
def test_numbers_that_make_no_batches(wrong, said):
    with pytest.raises(InputError, match=f"{said}; expected"):
        batches([1, 2], **{"batch_size": 1, "seed": 0, "epoch": 0, **wrong})


@given(ids=st.lists(st.lists(st.integers(0, 99), min_size=1, max_size=9), min_size=1, max_size=6))
def test_collate_keeps_every_id_and_masks_the_rest(ids):
    batch = collate(ids, pad_id=77)
    tokens, mask = batch["input_ids"], batch["attention_mask"]
    assert list(batch) == ["input_ids", "attention_mask"]
    assert tokens.shape == mask.shape == (len(ids), max(map(len, ids)))
    assert tokens.dtype == mask.dtype == torch.long
    assert [row[keep.bool()].tolist() for row, keep in zip(tokens, mask, strict=True)] == ids
    assert (tokens[mask == 0] == 77).all()
    assert (mask.diff(dim=1) <= 0).all()  # padded on the right


def test_collate_refuses_what_has_no_tokens():
    with pytest.raises(InputError, match="at least one id per row; row 2 has none"):
        collate([[1], [], []], pad_id=0)
    with pytest.raises(InputError, match="it has no rows"):
        collate([], pad_id=0)


# Splits


@settings(deadline=None)
@given(labels=LABELS, holdout=st.floats(0.01, 0.99), seed=SEEDS)
def test_a_split_is_stratified_and_complete(labels, holdout, seed):
    train, held = split(labels, holdout=holdout, seed=seed)
    assert sorted(train + held) == list(range(len(labels)))
    assert train == sorted(train) and held == sorted(held)
    there, apart = Counter(labels), Counter(labels[row] for row in held)
    for name, size in there.items():
        assert 1 <= apart[name] <= size - 1
        assert abs(apart[name] - holdout * size) <= 1
    assert split(labels, holdout=holdout, seed=seed) == (train, held)


def test_a_split_takes_the_share_exactly_where_it_can():
    _, held = split(["a"] * 50 + ["b"] * 10, holdout=0.2, seed=0)
    assert sum(row < 50 for row in held) == 10 and sum(row >= 50 for row in held) == 2


def test_splits_of_other_seeds_differ_and_reach_every_row():
    labels = ["a", "b"] * 20
    held = [tuple(split(labels, holdout=0.25, seed=seed)[1]) for seed in range(40)]
    assert len(set(held)) > 30
    assert {row for rows in held for row in rows} == set(range(40))


@given(labels=LABELS, seed=SEEDS)
def test_a_split_does_not_depend_on_which_class_comes_first(labels, seed):
    names = sorted(set(labels))
    order = sorted(range(len(labels)), key=lambda row: names[::-1].index(labels[row]))
    ours, theirs = (
        split(labels, holdout=0.3, seed=seed)[1],
        split([labels[row] for row in order], holdout=0.3, seed=seed)[1],
    )
    assert {order[row] for row in theirs} == set(ours)


def test_splits_that_can_not_be():
    with pytest.raises(InputError, match="class 'b' has 1 row, class 'c' has 1 row; a class needs 2 rows"):
        split(["a", "a", "b", "c"], holdout=0.5, seed=0)
    with pytest.raises(InputError, match="every row has the label 'a'; expected at least two classes"):
        split(["a", "a"], holdout=0.5, seed=0)
    with pytest.raises(InputError, match="there are no labels"):
        split([], holdout=0.5, seed=0)
    with pytest.raises(InputError, match="seed is -3; expected 0 or more"):
        split(["a", "b"] * 2, holdout=0.5, seed=-3)


@st.composite
def grouped(draw) -> tuple[list[str], list[str]]:
    """Labels and groups of rows; each class has two groups or more."""
    rows = draw(st.lists(st.tuples(st.sampled_from("abc"), st.integers(0, 9)), min_size=1, max_size=60))
    pairs = [*rows, *((label, group) for label in {label for label, _ in rows} for group in (10, 11))]
    return [label for label, _ in pairs], [f"g{group}" for _, group in pairs]


@settings(max_examples=200, deadline=None)
@given(rows=grouped(), holdout=st.floats(0.05, 0.6), seed=st.integers(0, 9))
def test_no_group_is_on_both_sides_and_every_class_is_learned(rows, holdout, seed):
    labels, groups = rows
    train, held = split_groups(labels, groups, holdout=holdout, seed=seed)
    assert sorted(train + held) == list(range(len(labels))) and train == sorted(train) and held
    assert not {groups[row] for row in train} & {groups[row] for row in held}
    for label in set(labels):
        of_class = {groups[row] for row, name in enumerate(labels) if name == label}
        learned = {groups[row] for row in train if labels[row] == label}
        assert len(learned) >= min(2, len(of_class) - 1)
    assert (train, held) == split_groups(labels, groups, holdout=holdout, seed=seed)


def test_groups_are_held_out_by_their_rows_for_each_class():
    labels, groups = ["a", "a", "b", "a"] * 250, [f"g{row // 4 % 50}" for row in range(1000)]
    splits = [split_groups(labels, groups, holdout=0.3, seed=seed)[1] for seed in range(5)]
    for held in splits:
        assert Counter(labels[row] for row in held) == {"a": 225, "b": 75}
    assert len(set(map(tuple, splits))) == 5
    large = ["g0"] * 60 + ["g1"] * 20 + ["g2"] * 20  # of which no group is a tenth
    train, held = split_groups(["a"] * 100, large, holdout=0.1, seed=0)
    assert len(train) == 80 and len(held) == 20


@pytest.mark.parametrize(
    ("labels", "groups", "message"),
    [
        (
            "aabb",
            "ppqr",
            "all rows of the class 'a' are in one group, which can't be on both sides of a split",
        ),
        ("aabbcc", "ppqqrs", "all rows of the class 'a' \\(and those of 1 more\\) are in one group"),
        ("aaaa", "pppp", "all rows are in one group, and a split needs two; leave the groups out"),
    ],
)
def test_a_class_in_one_group_can_not_be_split(labels, groups, message):
    with pytest.raises(InputError, match=message):
        split_groups(list(labels), list(groups), holdout=0.5, seed=0)


def test_few_shots_are_of_as_many_groups_as_there_are():
    labels, groups = ["a", "b"] * 40, [f"g{min(row // 2, 4)}" for row in range(80)]
    few, more = (shots(labels, count=count, seed=0, groups=groups) for count in (4, 9))
    for label in "ab":
        assert len({groups[row] for row in few if labels[row] == label}) == 4
        assert {groups[row] for row in more if labels[row] == label} == {f"g{at}" for at in range(5)}
    assert set(few) <= set(more)


@pytest.mark.parametrize("task", ["classification", "regression"])
def test_a_table_with_groups_keeps_them_whole(task):
    table = Table(["x"] * 40, ["1", "2"] * 20, "t.csv", 0, task, [str(row // 4) for row in range(40)])
    train, held = (table.select(rows) for rows in table.split(holdout=0.3, seed=0))
    assert not set(train.groups) & set(held.groups) and len(held) == 12
    assert len(set(train.select(train.shots(count=5, seed=0)).groups)) >= 5
    train.check_apart(held)
    with pytest.raises(
        InputError, match=r"^t.csv: 40 rows of groups that the training rows have, such as '0'"
    ):
        table.check_apart(table)
    assert Table(table.texts, table.labels, "t.csv", 0, task).fingerprint != table.fingerprint


@pytest.mark.parametrize("holdout", [0, 1, -0.1, 1.5, 20, float("nan")])
def test_a_holdout_is_a_share(holdout):
    with pytest.raises(InputError, match=f"holdout is {holdout}; expected a share between 0 and 1"):
        split(["a", "b"] * 2, holdout=holdout, seed=0)


# Shots


@settings(deadline=None)
@given(labels=LABELS, seed=SEEDS, data=st.data())
def test_shots_are_balanced_and_nested(labels, seed, data):
    most = min(Counter(labels).values())
    few = data.draw(st.integers(1, most))
    more = data.draw(st.integers(few, most))
    small, large = shots(labels, count=few, seed=seed), shots(labels, count=more, seed=seed)
    assert Counter(labels[row] for row in large) == dict.fromkeys(set(labels), more)
    assert set(small) <= set(large) and len(set(small)) == len(small) == few * len(set(labels))
    assert small == sorted(small) == shots(labels, count=few, seed=seed)


def test_shots_of_other_seeds_differ_and_reach_every_row():
    drawn = [tuple(shots(["a", "b"] * 20, count=4, seed=seed)) for seed in range(60)]
    assert len(set(drawn)) > 50
    assert {row for rows in drawn for row in rows} == set(range(40))


def test_too_many_shots_name_every_short_class_and_the_most_there_can_be():
    labels = ["a"] * 20 + ["b"] * 7 + ["c"] + ["d"] * 16
    with pytest.raises(InputError) as error:
        shots(labels, count=16, seed=0)
    assert str(error.value) == (
        "16 shots are more than there are: class 'b' has 7 rows, class 'c' has 1 row. Use 1 or fewer; leave "
        "out small classes with --min-class 16 (min_class=16 in Python); or, if labels differ in their "
        "spelling alone, merge them with --merge-labels (merge_labels=True)."
    )
    assert len(shots(labels, count=1, seed=0)) == 4


def test_shots_that_can_not_be():
    with pytest.raises(InputError, match="count is 0; expected at least 1 row"):
        shots(["a"], count=0, seed=0)
    with pytest.raises(InputError, match="there are no labels"):
        shots([], count=1, seed=0)


# Texts on both sides


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        ("Well done!", "well  done", True),
        ("“Well”—done…", "WELL DONE", True),
        ("Straße", "STRASSE", True),
        ("cafe\u0301", "Café", True),
        ("你好，世界。", "你好世界", True),
        ("well\u200b\u00a0done\n", "welldone", True),
        ("ที่นี่", "ทน", False),  # marks are letters' own, not punctuation
        ("C++", "C", False),
        ("👍", "👎", False),
        ("!!!", "???", False),
        ("!!!", " !!! ", True),
        ("well done", "well down", False),
    ],
)
def test_repeated_looks_past_case_punctuation_and_spacing(one, other, same):
    assert repeated([one], [other]) == repeated([other], [one]) == int(same)


def test_repeated_counts_test_rows():
    assert repeated(["a", "A.", "b"], ["a", "a!", "c", "B"]) == 3
    assert repeated([], ["a"]) == repeated(["a"], []) == 0


# The examples in the docstrings


@pytest.mark.parametrize("name", ["tables", "tokens", "rows", "summary"])
def test_examples_run(name):
    result = doctest.testmod(importlib.import_module(f"vnait.data.{name}"))
    assert result.attempted and not result.failed
