"""What a person did wrong, in one sentence."""

from collections.abc import Iterable
from difflib import get_close_matches


class InputError(ValueError):
    """Wrong input: the message says what was given, what was expected and what to do.

    The command line prints it without a traceback and exits with 2; anything else is our own fault and keeps its traceback.
    """


def one_of(name: str, given: str, known: tuple[str, ...]) -> None:
    """An error where what was given for an option is none of its choices."""
    if given not in known:
        raise ValueError(f"{name}={given!r} is not known; take one of {', '.join(known)}.")


def meant(name: str, known: Iterable[str]) -> str:
    """A question that suggests the closest known name; nothing where none is close.

    >>> meant("vnat", ["rope", "vnait"]), meant("xyz", ["rope"])
    (" Did you mean 'vnait'?", '')
    """
    close = get_close_matches(name, list(known), n=1)
    return f" Did you mean {close[0]!r}?" if close else ""


def first_line(error: BaseException) -> str:
    """What an error of someone else's says first, without its full stop; its name where it says nothing."""
    return (str(error).strip().splitlines() or [type(error).__name__])[0].rstrip(".")
