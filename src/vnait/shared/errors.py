"""The error for wrong input, and parts of its message."""

import re
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from difflib import get_close_matches

_HALF = re.compile("[\ud800-\udfff]")


class InputError(ValueError):
    """Wrong input: the message states the input, what was expected and what to do.

    The command line prints it without a traceback and exits with 2. Any other error is a bug
    and keeps its traceback.
    """


class OutOfRange(ValueError):
    """A place for which a table has no row, such as one past its longest text."""


class DoesNotFit(ValueError):
    """A part of another width, or for another number of heads, than what it joins."""


class MissingExtra(InputError):
    """A package is missing that is not installed with vnait itself."""


@contextmanager
def extra(name: str) -> Iterator[None]:
    """Around an import: a missing package is a MissingExtra with the command that installs it.

    >>> with extra("figures"):
    ...     import no_such
    Traceback (most recent call last):
    vnait.shared.errors.MissingExtra: this needs no_such, which is missing: pip install 'vnait[figures]'.
    """
    try:
        yield
    except ModuleNotFoundError as error:
        package = (error.name or "a package").partition(".")[0]
        raise MissingExtra(f"this needs {package}, which is missing: pip install 'vnait[{name}]'.") from error


@contextmanager
def as_input_error(
    kinds: type[Exception] | tuple[type[Exception], ...],
    before: str = "",
    after: str = "",
    *,
    message: Callable[[BaseException], str] = str,
) -> Iterator[None]:
    """Turn an error of these kinds into an InputError: `before`, its `message`, `after`.

    An InputError passes unchanged: it is a whole sentence already.

    >>> with as_input_error(KeyError, "there is no setting ", "; name another."):
    ...     {}["pace"]
    Traceback (most recent call last):
    vnait.shared.errors.InputError: there is no setting 'pace'; name another.
    """
    try:
        yield
    except InputError:
        raise
    except kinds as error:
        raise InputError(f"{before}{message(error)}{after}") from error


def has_surrogate(text: str) -> bool:
    """Whether a text has half a character, a surrogate, which UTF-8 has no bytes for.

    >>> has_surrogate("caf\\udce9"), has_surrogate("caf\\u00e9")
    (True, False)
    """
    return _HALF.search(text) is not None


def whole(text: str) -> str:
    """The text with a mark in place of half characters, as in the name of a file that is not UTF-8.

    >>> whole("caf\\udce9.csv")
    'caf\ufffd.csv'
    """
    return _HALF.sub("\ufffd", text)


def one_of(name: str, value: str, known: tuple[str, ...]) -> None:
    """Raise ValueError unless the value of the option `name` is one of those known."""
    if value not in known:
        raise ValueError(f"{name}={value!r} is not known; take one of {', '.join(known)}.")


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """A question that suggests the closest known name; "" if none is close.

    >>> did_you_mean("vnat", ["rope", "vnait"]), did_you_mean("xyz", ["rope"])
    (" Did you mean 'vnait'?", '')
    """
    close = get_close_matches(name, list(known), n=1)
    return f" Did you mean {close[0]!r}?" if close else ""


def first_line(error: BaseException) -> str:
    """The first line of another library's error without its full stop; its type if it has no message."""
    return (str(error).strip().splitlines() or [type(error).__name__])[0].rstrip(".")


def one_line(error: BaseException) -> str:
    """The whole message of another library's error on one line, without its full stop; its type if empty."""
    return " ".join(str(error).split()).rstrip(".") or type(error).__name__


def plural(count: int, name: str) -> str:
    """A number with its noun.

    >>> plural(1, "token"), plural(2, "token")
    ('1 token', '2 tokens')
    """
    return f"{count} {name}{'' if count == 1 else 's'}"
