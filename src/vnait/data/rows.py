"""Rows for training, for testing and for few shots, texts that occur more than once, and batches of rows."""

from __future__ import annotations

import logging
import unicodedata
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from itertools import chain
from typing import TYPE_CHECKING

from vnait.shared.errors import InputError, plural

logger = logging.getLogger("vnait")

if TYPE_CHECKING:
    import numpy as np
    from jaxtyping import Int64
    from torch import Tensor

# Rows are sorted inside chunks of this many batches: wide enough for little padding, narrow enough to keep
# epochs different.
CHUNK = 50


def split(labels: Sequence[str], *, holdout: float, seed: int) -> tuple[list[int], list[int]]:
    """Training rows and held-out rows, stratified by class, both in increasing order.

    A class of n rows gives holdout * n of them, rounded, and at least one row to each side. InputError if
    there is only one class, or a class has only one row.

    >>> train, held = split(["a"] * 4 + ["b"] * 2, holdout=0.25, seed=0)
    >>> len(train), len(held)
    (4, 2)
    """
    _check_share(holdout)
    classes = _shuffled(labels, seed)
    if len(classes) < 2:
        raise InputError(f"every row has the label {next(iter(classes))!r}; expected at least two classes.")
    single = [name for name, rows in classes.items() if len(rows) < 2]
    if single:
        raise InputError(
            f"{_counts(single, classes)}; a class needs 2 rows to be split. Add rows, or leave it out with "
            "--min-class 2 (min_class=2 in Python)."
        )
    # scikit-learn's stratified split may leave a small class out of the held-out side.
    sizes = {name: min(max(round(holdout * len(rows)), 1), len(rows) - 1) for name, rows in classes.items()}
    train = sorted(row for name, rows in classes.items() for row in rows[sizes[name] :])
    held = sorted(row for name, rows in classes.items() for row in rows[: sizes[name]])
    return train, held


def split_numbers(labels: Sequence[str], *, holdout: float, seed: int) -> tuple[list[int], list[int]]:
    """`split` for numbers, which have no classes: rows at random, at least one on each side.

    >>> train, held = split_numbers(["1.5", "2", "3", "7"], holdout=0.25, seed=0)
    >>> len(train), len(held)
    (3, 1)
    """
    _check_share(holdout)
    if (count := len(labels)) < 2:
        raise InputError(f"there is {count} row; a split needs 2. Add rows.")
    order = generator(seed=seed).permutation(count).tolist()
    held = min(max(round(holdout * count), 1), count - 1)
    return sorted(order[held:]), sorted(order[:held])


def split_groups(
    labels: Sequence[str], groups: Sequence[str], *, holdout: float, seed: int
) -> tuple[list[int], list[int]]:
    """`split` with every group whole on one side, such as all texts by an author.

    Each class gives the share `holdout` of its rows as nearly as its groups allow, and leaves two groups to
    learn from, so that they can be split again; one if it has only two. InputError if a class has one group.

    >>> train, held = split_groups(["a", "b"] * 4, list("ppqqrrss"), holdout=0.25, seed=0)
    >>> len(train), len(held), held[0] + 1 == held[1]
    (6, 2, True)
    """
    _check_share(holdout)
    counts: dict[str, Counter[str]] = {name: Counter() for name in sorted(set(groups))}
    for label, name in zip(labels, groups, strict=True):
        counts[name][label] += 1
    left = Counter(chain.from_iterable(counts.values()))  # groups of each class on the training side
    _check_groups(left)
    least = {label: min(2, count - 1) for label, count in left.items()}
    wanted = {label: max(holdout * count, 1) for label, count in Counter(labels).items()}
    sizes = Counter[str]()  # rows of each class on the held-out side
    held = set[str]()

    def nearer(name: str) -> float:
        """How much nearer to their shares the classes of a group come with it."""
        return sum(
            (abs(sizes[label] - wanted[label]) - abs(sizes[label] + count - wanted[label])) / wanted[label]
            for label, count in counts[name].items()
        )

    def hold(name: str) -> None:
        if name not in held and all(left[label] > least[label] for label in counts[name]):
            held.add(name)
            left.subtract(counts[name].keys())
            sizes.update(counts[name])

    names = [list(counts)[at] for at in generator(seed=seed).permutation(len(counts))]
    for name in names:
        if nearer(name) > 0:
            hold(name)
    for name in sorted(names, key=lambda name: counts[name].total()):  # where all of a class's are large
        if not all(sizes[label] for label in counts[name]):
            hold(name)
    sides: dict[bool, list[int]] = {False: [], True: []}
    for row, name in enumerate(groups):
        sides[name in held].append(row)
    return sides[False], sides[True]


def check_apart(groups: Iterable[str], test_groups: Sequence[str], test: str) -> None:
    """Raise InputError if rows of the file `test` are of groups that training rows have."""
    known = set(groups)
    if shared := [name for name in test_groups if name in known]:
        raise InputError(
            f"{test}: {plural(len(shared), 'row')} of groups that the training rows have, such as "
            f"{shared[0]!r}; remove them from one of the files."
        )


def _check_groups(counts: Mapping[str, int]) -> None:
    """Raise InputError if a class has a single group; counts are groups per class."""
    if single := sorted(label for label, count in counts.items() if count < 2):
        if len(counts) == 1:
            raise InputError("all rows are in one group, and a split needs two; leave the groups out.")
        more = f" (and those of {len(single) - 1} more)" if len(single) > 1 else ""
        raise InputError(
            f"all rows of the class {single[0]!r}{more} are in one group, which can't be on both sides of a "
            "split; add rows of other groups, or remove the class."
        )


def _check_share(holdout: float) -> None:
    if not 0 < holdout < 1:
        raise InputError(f"holdout is {holdout}; expected a share between 0 and 1, such as 0.2.")


def shots(labels: Sequence[str], *, count: int, seed: int, groups: Sequence[str] | None = None) -> list[int]:
    """`count` random rows of every class, increasing; with one seed, fewer shots are a subset of more. With
    groups, they are of as many as possible, so that few rows can be split.

    >>> labels = ["a", "b"] * 10
    >>> few, more = shots(labels, count=2, seed=0), shots(labels, count=5, seed=0)
    >>> len(few), len(more), set(few) <= set(more)
    (4, 10, True)
    """
    if count < 1:
        raise InputError(f"count is {count}; expected at least 1 row of every class.")
    classes = _shuffled(labels, seed)
    short = [name for name, rows in classes.items() if len(rows) < count]
    if short:
        largest = min(map(len, classes.values()))
        raise InputError(
            f"{count} shots are more than there are: {_counts(short, classes)}. Use {largest} or fewer; "
            f"leave out small classes with --min-class {count} (min_class={count} in Python); or, if "
            "labels differ in their spelling alone, merge them with --merge-labels (merge_labels=True)."
        )
    if groups is not None:
        classes = {name: _in_turn(rows, groups) for name, rows in classes.items()}
    return sorted(row for rows in classes.values() for row in rows[:count])


def _in_turn(rows: Sequence[int], groups: Sequence[str]) -> list[int]:
    """The rows, each group's first one, then each group's second one, and so on."""
    seen = Counter[str]()
    turns = []
    for row in rows:
        turns.append(seen[groups[row]])
        seen[groups[row]] += 1
    return [row for _, row in sorted(zip(turns, rows, strict=True), key=lambda pair: pair[0])]


def repeated(train_texts: Iterable[str], test_texts: Iterable[str]) -> int:
    """How many test texts are also training texts, ignoring case, punctuation and spacing.

    >>> repeated(["Well done!", "other"], ["well  done", "new"])
    1
    """
    known = {_normalized(text) for text in train_texts}
    return sum(_normalized(text) in known for text in test_texts)


def warn_of_repeats(train_texts: Iterable[str], test_texts: Sequence[str], what: str = "test") -> int:
    """`repeated`, with a warning in the log if there are any."""
    if count := repeated(train_texts, test_texts):
        logger.warning(
            "%d of %d %s rows also occur in the training rows, so scores are too good; remove the repeats, "
            "or keep them on one side with --group and the name of the text's column.",
            *(count, len(test_texts), what),
        )
    return count


def duplicates(texts: Iterable[str]) -> int:
    """How many texts repeat an earlier one, ignoring case, punctuation and spacing.

    >>> duplicates(["Well done!", "well  done", "new", "Well done!"])
    2
    """
    normalized = [_normalized(text) for text in texts]
    return len(normalized) - len(set(normalized))


def _shuffled(labels: Sequence[str], seed: int) -> dict[str, list[int]]:
    """The rows of every class in random order; classes by name, so the order of the rows has no influence."""
    if not len(labels):
        raise InputError("there are no labels; expected one per row.")
    classes: dict[str, list[int]] = {name: [] for name in sorted(set(labels))}
    for row, label in enumerate(labels):
        classes[label].append(row)
    random = generator(seed=seed)
    return {name: random.permutation(rows).tolist() for name, rows in classes.items()}


def _counts(names: Sequence[str], classes: dict[str, list[int]]) -> str:
    sizes = {name: len(classes[name]) for name in names[:3]}
    shown = ", ".join(f"class {name!r} has {plural(size, 'row')}" for name, size in sizes.items())
    return shown + f" and {len(names) - 3} more have too few" * (len(names) > 3)


def _normalized(text: str) -> str:
    folded = unicodedata.normalize("NFC", text.casefold())
    # A text of punctuation only stays as it is; else "!!!" and "???" would be equal.
    return folded.translate(_SIGNIFICANT) or folded.strip()


class _Significant(dict[int, int | None]):
    """For `str.translate`: no punctuation, white space or invisible controls. Symbols stay: C++ is not C.

    Filled as characters occur: there are a million, and a text has a few.
    """

    def __missing__(self, code: int) -> int | None:
        left_out = unicodedata.category(chr(code)).startswith(("P", "Z", "Cc", "Cf"))
        self[code] = None if left_out else code
        return self[code]


_SIGNIFICANT = _Significant()


def batches(lengths: Sequence[int], *, batch_size: int, seed: int, epoch: int) -> list[list[int]]:
    """The row numbers 0 ... N-1, each once, in batches of at most `batch_size` rows of similar length.

    Rows are shuffled, sorted by length inside chunks of 50 batches, cut, and the batches are shuffled. The
    result depends on the arguments only, so a resumed run gets the same batches.

    >>> batches([9, 1, 8, 2], batch_size=2, seed=0, epoch=0)
    [[2, 0], [1, 3]]
    """
    if batch_size < 1:
        raise InputError(f"batch_size is {batch_size}; expected at least 1.")
    random = generator(seed=seed, epoch=epoch)
    order = random.permutation(len(lengths)).tolist()
    chunks = [order[start : start + CHUNK * batch_size] for start in range(0, len(order), CHUNK * batch_size)]
    ordered = [row for chunk in chunks for row in sorted(chunk, key=lambda row: lengths[row])]
    cut = [ordered[start : start + batch_size] for start in range(0, len(ordered), batch_size)]
    return [cut[index] for index in random.permutation(len(cut))]


def collate(
    ids: Sequence[Sequence[int]], *, pad_id: int, separator: int | None = None
) -> dict[str, Int64[Tensor, "B T"]]:
    """`input_ids` and `attention_mask` (B, T), both int64, padded on the right to the longest row.

    The mask is 1 on tokens and 0 on padding. InputError if a row has no ids, since attention over an empty
    row is undefined. With a `separator`, also `token_type_ids`: 1 after the first one, as BERT reads pairs.

    >>> collate([[5, 6], [7]], pad_id=0)["input_ids"].tolist()
    [[5, 6], [7, 0]]
    """
    import torch  # here: a faulty file is refused before torch is loaded

    empty = [row for row, line in enumerate(ids, 1) if not len(line)]
    if empty or not ids:
        reason = f"row {empty[0]} has none" if ids else "it has no rows"
        raise InputError(f"a batch needs at least one id per row; {reason}.")
    lengths = torch.tensor([len(line) for line in ids])
    mask = torch.arange(int(lengths.max())) < lengths[:, None]
    padded = torch.full(mask.shape, pad_id)
    padded[mask] = torch.tensor([*chain.from_iterable(ids)])
    batch = {"input_ids": padded, "attention_mask": mask.long()}
    if separator is not None:
        ends = (padded == separator).long()
        batch["token_type_ids"] = ((ends.cumsum(-1) > ends) & mask).long()
    return batch


def generator(**numbers: int) -> np.random.Generator:
    """A random generator seeded by the named numbers, all 0 or more.

    >>> int(generator(seed=0, epoch=1).integers(100)) == int(generator(seed=0, epoch=1).integers(100))
    True
    """
    import numpy as np  # here, as torch

    for name, number in numbers.items():
        if number < 0:
            raise InputError(f"{name} is {number}; expected 0 or more.")
    return np.random.default_rng(list(numbers.values()))
