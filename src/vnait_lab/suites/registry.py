"""Tasks by name, and the decorator that registers the functions which generate them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

Task = TypeVar("Task")
Make = TypeVar("Make", bound=Callable[..., Any])


def registry(kind: Callable[..., Task]) -> tuple[dict[str, Task], Callable[..., Callable[[Make], Make]]]:
    """A dict, and a decorator that registers in it `kind(make, *facts)` under a `name`, or under the
    function's.

    >>> tasks, task = registry(lambda make, asks: (make(2), asks))
    >>> double = task("twice what?")(lambda x: 2 * x)
    >>> task("and half?", name="half")(lambda x: x / 2) and tasks
    {'<lambda>': (4, 'twice what?'), 'half': (1.0, 'and half?')}
    """
    tasks: dict[str, Task] = {}

    def task(*facts: Any, name: str = "", **more: Any) -> Callable[[Make], Make]:
        def register(make: Make) -> Make:
            tasks[name or make.__name__] = kind(make, *facts, **more)
            return make

        return register

    return tasks, task
