"""Questions for a decoder, which reads one and writes its answer: the ten tasks of Kazemnejad et al., "The
Impact of Positional Encoding on Length Generalization in Transformers" (arXiv 2305.19466, table 1).

A task is a function (number of texts, length, generator) -> [(question, answer), ...] of tokens, registered
in `QUESTIONS`. `counts` names the unit of a length, as in the paper. Training goes up to half of the longest,
as in the paper; the longest is our choice (the paper's code trains up to 8 of 16 for most tasks). SCAN is the
whole published set, made from its grammar; PCFG is drawn from the grammar of PCFG SET, not from its files.
"""

from __future__ import annotations

import random as plain_random
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import lru_cache
from itertools import product

import torch
from torch import Generator

from vnait.shared.errors import InputError

Tokens = list[str]
Pairs = list[tuple[Tokens, Tokens]]
Random = plain_random.Random
Draw = Callable[[int, Random], tuple[Tokens, Tokens]]

SYMBOLS = [str(number) for number in range(100)]
SORTED = SYMBOLS[:50]
DIGITS = SYMBOLS[:10]
VARIABLES = "abcdefghijklmnopqrstuvwxyz"
LETTERS = [f"{letter}{number}" for letter in VARIABLES.upper() for number in range(1, 21)]


@dataclass(frozen=True, kw_only=True)
class Question:
    """`make` generates texts of `tokens`; `asks` is the question; a length is 1 to `longest` of `counts`."""

    make: Callable[[int, int, Generator], Pairs]
    tokens: tuple[str, ...]
    asks: str
    counts: str
    longest: int

    def __post_init__(self) -> None:
        if self.longest < 10:
            raise InputError(
                f"a longest length of {self.longest} was given; take 10 or more, so that 50, 60 ... 100 % "
                "of it differ."
            )


QUESTIONS: dict[str, Question] = {}


def question(asks: str, tokens: Iterable[str], counts: str, longest: int = 40) -> Callable[[Draw], Draw]:
    """Register a task under the name of the function that draws one question and its answer."""

    def register(draw: Draw) -> Draw:
        def make(count: int, length: int, random: Generator) -> Pairs:
            if not 1 <= length <= longest:
                raise ValueError(f"a length of {length} was given; {draw.__name__} takes 1 to {longest}.")
            draws = plain_random.Random(int(torch.randint(2**62, (), generator=random)))
            return [draw(length, draws) for _ in range(count)]

        QUESTIONS[draw.__name__] = Question(
            make=make, tokens=tuple(tokens), asks=asks, counts=counts, longest=longest
        )
        return draw

    return register


# --- Primitive tasks


@question("the same again", SYMBOLS, "symbols, of 100 kinds")
def copy(length: int, random: Random) -> tuple[Tokens, Tokens]:
    """3 1 4 -> 3 1 4."""
    text = random.choices(SYMBOLS, k=length)
    return text, list(text)


@question("the same from its end", SYMBOLS, "symbols, of 100 kinds")
def reverse(length: int, random: Random) -> tuple[Tokens, Tokens]:
    """3 1 4 -> 4 1 3."""
    text = random.choices(SYMBOLS, k=length)
    return text, text[::-1]


# --- Mathematical tasks


@question("the sum, highest digits first", [*DIGITS, "+"], "digits of the longer number")
def addition(length: int, random: Random) -> tuple[Tokens, Tokens]:
    """9 9 + 2 -> 1 0 1. Only a number of one digit may be 0."""
    sizes = [length, random.randint(1, length)]
    random.shuffle(sizes)
    left, right = (random.randrange(10 ** (size - 1) if size > 1 else 0, 10**size) for size in sizes)
    return [*str(left), "+", *str(right)], [*str(left + right)]


@question("the value of a polynomial at x, modulo 10", [*DIGITS, *"x=;^+-"], "terms, of degree 0 to 3")
def polynomial(length: int, random: Random) -> tuple[Tokens, Tokens]:
    """x = - 1 ; 2 x ^ 3 + - 3 x ^ 0 -> 5. Coefficients are -3 ... 3, and x -2 ... 2."""
    x, terms = random.randint(-2, 2), [(random.randint(-3, 3), random.randint(0, 3)) for _ in range(length)]
    question = ["x", "=", *str(x), ";"]
    for number, (factor, degree) in enumerate(terms):
        question += [*(["+"] if number else []), *str(factor), "x", "^", str(degree)]
    return question, [str(sum(factor * x**degree for factor, degree in terms) % 10)]


@question("the symbols in order", SORTED, "symbols, of 50 kinds")
def sorting(length: int, random: Random) -> tuple[Tokens, Tokens]:
    """31 4 15 -> 4 15 31."""
    text = random.choices(SORTED, k=length)
    return text, sorted(text, key=int)


@question("the sum, modulo 10", DIGITS, "digits, of 1 to 9")
def summation(length: int, random: Random) -> tuple[Tokens, Tokens]:
    """9 2 5 -> 6."""
    digits = [random.randint(1, 9) for _ in range(length)]
    return [str(digit) for digit in digits], [str(sum(digits) % 10)]


@question("is the number of 1s odd?", ["0", "1"], "bits")
def parity(length: int, random: Random) -> tuple[Tokens, Tokens]:
    """1 1 1 -> 1."""
    bits = [random.randint(0, 1) for _ in range(length)]
    return [str(bit) for bit in bits], [str(sum(bits) % 2)]


@question(
    "the sign of a variable, along a chain of equations",
    [*VARIABLES, *"=+-1;?"],
    "variables",
    longest=len(VARIABLES),
)
def lego(length: int, random: Random) -> tuple[Tokens, Tokens]:
    """a = + 1 ; b = - a ; ? b -> - 1. The question is about a variable of the second half (LEGO, arXiv
    2206.04301).
    """
    names, signs = random.sample(VARIABLES, length), [random.choice((1, -1)) for _ in range(length)]
    question = [names[0], "=", *_signed(signs[0]), ";"]
    for place in range(1, length):
        sign = "+" if signs[place] == signs[place - 1] else "-"
        question += [names[place], "=", sign, names[place - 1], ";"]
    asked = random.randrange(min((length + 1) // 2, length - 1), length)
    return [*question, "?", names[asked]], _signed(signs[asked])


def _signed(sign: int) -> Tokens:
    return ["+" if sign > 0 else "-", "1"]


# --- Compositional tasks


SCAN_VERBS = ("walk", "look", "run", "jump")
SCAN_WORDS = (*SCAN_VERBS, "turn", "left", "right", "opposite", "around", "twice", "thrice", "and", "after")
SCAN_ACTIONS = ("WALK", "LOOK", "RUN", "JUMP", "TURN_LEFT", "TURN_RIGHT")


@question(
    "the actions of a command",
    [*SCAN_WORDS, *SCAN_ACTIONS],
    "actions; where no command has so many, the next fewer",
    longest=48,
)
def scan(length: int, random: Random) -> tuple[Tokens, Tokens]:
    """jump left twice -> TURN_LEFT JUMP TURN_LEFT JUMP (SCAN, arXiv 1711.00350)."""
    commands = scan_commands()
    command, actions = random.choice(commands[max(size for size in commands if size <= length)])
    return list(command), list(actions)


@lru_cache(maxsize=1)
def scan_commands() -> dict[int, list[tuple[Tokens, Tokens]]]:
    """All 20,910 commands with their actions, grouped by the number of actions."""
    verbs = [([verb], [verb.upper()]) for verb in SCAN_VERBS]
    for verb, side in product((*SCAN_VERBS, "turn"), ("left", "right")):
        turn, act = [f"TURN_{side.upper()}"], [] if verb == "turn" else [verb.upper()]
        verbs.append(([verb, side], turn + act))
        verbs.append(([verb, "opposite", side], 2 * turn + act))
        verbs.append(([verb, "around", side], 4 * (turn + act)))
    phrases = [
        (words + how, times * acts)
        for words, acts in verbs
        for times, how in enumerate(([], ["twice"], ["thrice"]), start=1)
    ]
    commands = list(phrases)
    for (words, acts), (then, more) in product(phrases, phrases):
        commands.append(([*words, "and", *then], acts + more))
        commands.append(([*words, "after", *then], more + acts))
    by_length: dict[int, list[tuple[Tokens, Tokens]]] = {}
    for command in commands:
        by_length.setdefault(len(command[1]), []).append(command)
    return by_length


UNARY: dict[str, Callable[[Tokens], Tokens]] = {
    "copy": lambda text: text,
    "reverse": lambda text: text[::-1],
    "shift": lambda text: text[1:] + text[:1],
    "swap_first_last": lambda text: [*text[-1:], *text[1:-1], *text[:1]] if len(text) > 1 else text,
    "repeat": lambda text: text + text,
    "echo": lambda text: text + text[-1:],
}
BINARY: dict[str, Callable[[Tokens, Tokens], Tokens]] = {
    "append": lambda left, right: left + right,
    "prepend": lambda left, right: right + left,
    "remove_first": lambda left, right: right,
    "remove_second": lambda left, right: left,
}


@question(
    "what is left of strings after functions of them",
    [*UNARY, *BINARY, ",", *LETTERS],
    "functions",
    longest=20,
)
def pcfg(length: int, random: Random) -> tuple[Tokens, Tokens]:
    """append reverse A1 B2 , C3 -> B2 A1 C3 (PCFG SET, arXiv 1908.08351). Strings have 2 to 5 letters.

    A string can double at every function: a question with an answer of more than 40 letters is drawn again.
    """
    while True:
        question, answer = _applied(length, random)
        if len(answer) <= 40:
            return question, answer


def _applied(functions: int, random: Random) -> tuple[Tokens, Tokens]:
    if not functions:
        text = random.choices(LETTERS, k=random.randint(2, 5))
        return text, text
    name = random.choice([*UNARY, *BINARY])
    if name in UNARY:
        question, answer = _applied(functions - 1, random)
        return [name, *question], UNARY[name](answer)
    count = random.randint(0, functions - 1)
    (left, first), (right, second) = _applied(count, random), _applied(functions - 1 - count, random)
    return [name, *left, ",", *right], BINARY[name](first, second)
