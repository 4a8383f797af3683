"""Algorithmic tasks: the fifteen of Deletang et al., "Neural Networks and the Chomsky Hierarchy" (arXiv
2207.02098, appendix A.1), as Ruoss et al. use them for "Randomized positional encodings" (arXiv 2305.16843).

A task is a function (number of texts, length, generator) -> (symbols (N, T), answers (N, A)), registered in
`ALGORITHMS`, for any length of 1 symbol or more. Symbols and answers count from 0. If the number of answers
depends on the text, END closes them and zeros fill the rest; the fill is trained on but, as in the papers,
not scored.
"""

from __future__ import annotations

import math
import random as plain_random
from collections.abc import Callable, Sequence
from dataclasses import KW_ONLY, dataclass

import torch
from jaxtyping import Bool, Int
from torch import Generator, Tensor

from vnait_lab.suites.registry import registry

MODULUS = 5  # as in Deletang et al.
PLUS, MINUS, TIMES, OPEN, CLOSE, UNKNOWN, EQUALS = range(MODULUS, MODULUS + 7)  # after the digits 0 ... 4
END = 2  # after bits: of answers, and between two numbers
POP, PUSH = 2, 3  # PUSH + bit
HOLE, FILL = 2, 3

Texts = tuple[Int[Tensor, "N T"], Int[Tensor, "N A"]]
Draw = Callable[[], float]  # evenly from [0, 1)


@dataclass(frozen=True)
class Algorithm:
    """`make` generates texts; `asks` is the question, `level` its level of the Chomsky hierarchy.

    symbols    kinds of symbols in texts
    classes    kinds of answers
    answers    length of a text -> number of its answers
    ends       whether only the answers up to END count
    """

    make: Callable[[int, int, Generator], Texts]
    level: str
    asks: str
    _: KW_ONLY
    symbols: int
    classes: int
    answers: Callable[[int], int] = lambda length: 1
    ends: bool = False

    @property
    def chance(self) -> float:
        """The accuracy of guessing, as in the papers."""
        return 1 / (self.classes - self.ends)

    def counted(self, answers: Int[Tensor, "N A"]) -> Bool[Tensor, "N A"]:
        """A mask of the answers that a score counts.

        >>> ALGORITHMS["stack_manipulation"].counted(torch.tensor([[1, 0, 2, 0, 0]])).tolist()
        [[True, True, True, False, False]]
        """
        if not self.ends:
            return torch.ones_like(answers, dtype=torch.bool)
        end = answers == END
        return end.cumsum(-1) - end.long() == 0


ALGORITHMS, algorithm = registry(Algorithm)


# --- Regular: a finite number of states


@algorithm("regular", "is the number of 01 and 10 odd?", symbols=2, classes=2)
def even_pairs(count: int, length: int, random: Generator) -> Texts:
    """001110 -> 0, 0101001 -> 1: whether the first and the last bit differ."""
    text = symbols(2, count, length, random)
    return text, (text[:, :1] + text[:, -1:]) % 2


@algorithm("regular", "the value of an expression without brackets, modulo 5", symbols=8, classes=5)
def modular_arithmetic(count: int, length: int, random: Generator) -> Texts:
    """1 + 2 * 3 -> 2, products first. Digits and operators alternate; an even length is shortened by one."""
    digits = symbols(MODULUS, count, (length + 1) // 2, random)
    operators = PLUS + symbols(3, count, (length - 1) // 2, random)
    text = torch.empty(count, digits.shape[1] + operators.shape[1], dtype=torch.long)
    text[:, ::2], text[:, 1::2] = digits, operators
    total, term = torch.zeros(count, dtype=torch.long), digits[:, 0]
    for digit, operator in zip(digits[:, 1:].unbind(1), operators.unbind(1), strict=True):
        times = operator == TIMES
        total = torch.where(times, total, total + term)
        term = torch.where(times, term * digit, torch.where(operator == MINUS, -digit, digit)) % MODULUS
    return text, ((total + term) % MODULUS)[:, None]


@algorithm("regular", "is the number of 1s odd?", symbols=2, classes=2)
def parity_check(count: int, length: int, random: Generator) -> Texts:
    """1010100 -> 1."""
    text = symbols(2, count, length, random)
    return text, text.sum(1, keepdim=True) % 2


@algorithm(
    "regular", "the place on a circle of 5 after steps back (0), none (1) and forth (2)", symbols=3, classes=5
)
def cycle_navigation(count: int, length: int, random: Generator) -> Texts:
    """2 0 1 0 0 -> 3."""
    text = symbols(3, count, length, random)
    return text, (text - 1).sum(1, keepdim=True) % 5


# --- Context-free: a stack


@algorithm(
    "context-free",
    "a stack, after pops (2) and pushes of 0 (3) and of 1 (4), from its top",
    symbols=5,
    classes=3,
    answers=lambda length: length + 1,
    ends=True,
)
def stack_manipulation(count: int, length: int, random: Generator) -> Texts:
    """0110 4 2 2 -> 110 END 0000. The stack comes first, from its bottom, with a size drawn evenly; a pop
    of an empty stack does nothing.
    """
    sizes = 1 + symbols(max(length - 1, 1), count, 1, random)
    bits, actions = symbols(2, count, length, random), POP + symbols(3, count, length, random)
    text = torch.where(torch.arange(length) < sizes, bits, actions)
    return text, _closed([_last_stack(row) for row in text.tolist()], length + 1)


def _last_stack(text: list[int]) -> list[int]:
    stack: list[int] = []
    for symbol in text:
        if symbol == POP:
            del stack[-1:]
        else:
            stack.append(symbol if symbol < POP else symbol - PUSH)
    return stack[::-1]


@algorithm("context-free", "the text from its end", symbols=2, classes=2, answers=lambda length: length)
def reverse_string(count: int, length: int, random: Generator) -> Texts:
    """011010 -> 010110."""
    text = symbols(2, count, length, random)
    return text, text.flip(1)


@algorithm("context-free", "the value of an expression with brackets, modulo 5", symbols=10, classes=5)
def modular_arithmetic_brackets(count: int, length: int, random: Generator) -> Texts:
    """((3*4)-(-1)) -> 3."""
    draw, texts, values = _plain(random), list[list[int]](), list[list[int]]()
    for _ in range(count):
        texts.append([])
        values.append([_expression(texts[-1], length, 3, draw)])
    return torch.tensor(texts), torch.tensor(values)


@algorithm(
    "context-free", "the digit behind x, in an expression with brackets = its value", symbols=12, classes=5
)
def solve_equation(count: int, length: int, random: Generator) -> Texts:
    """(x+(3-1))=1 -> 4. There are no products, so there is one solution. Zeros below 3 symbols."""
    if length < 3:
        return torch.zeros(count, length, dtype=torch.long), torch.zeros(count, 1, dtype=torch.long)
    draw, texts, hidden = _plain(random), list[list[int]](), list[list[int]]()
    for _ in range(count):
        text: list[int] = []
        value = _expression(text, length - 2, 2, draw)
        place = int(draw() * len(text))
        while text[place] >= MODULUS:  # not a digit: take the next one, as in the papers
            place = (place + 1) % len(text)
        hidden.append([text[place]])
        text[place] = UNKNOWN
        texts.append([*text, EQUALS, value])
    return torch.tensor(texts), torch.tensor(hidden)


def _expression(text: list[int], length: int, operators: int, draw: Draw) -> int:
    """Append an expression of `length` symbols, and return its value: d, -d, (d), (-d), or (one operator
    other) with the place of the operator drawn evenly.
    """
    if length < 5:
        digit = int(draw() * MODULUS)
        text += ([digit], [MINUS, digit], [OPEN, digit, CLOSE], [OPEN, MINUS, digit, CLOSE])[length - 1]
        return digit if length % 2 else -digit % MODULUS
    left, operator = 1 + int(draw() * (length - 4)), PLUS + int(draw() * operators)
    text.append(OPEN)
    first = _expression(text, left, operators, draw)
    text.append(operator)
    second = _expression(text, length - 3 - left, operators, draw)
    text.append(CLOSE)
    value = first * second if operator == TIMES else first - second if operator == MINUS else first + second
    return value % MODULUS


# --- Context-sensitive: a tape


@algorithm("context-sensitive", "the text twice", symbols=2, classes=2, answers=lambda length: 2 * length)
def duplicate_string(count: int, length: int, random: Generator) -> Texts:
    """101 -> 101101."""
    text = symbols(2, count, length, random)
    return text, text.repeat(1, 2)


@algorithm("context-sensitive", "the hidden (2) bit of bits that stand there twice", symbols=4, classes=2)
def missing_duplicate(count: int, length: int, random: Generator) -> Texts:
    """01100210 -> 1. An odd length ends in a 3; a length of 1 is the symbol 1 with the answer 1."""
    if length == 1:
        return torch.ones(count, 1, dtype=torch.long), torch.ones(count, 1, dtype=torch.long)
    twice = symbols(2, count, length // 2, random).repeat(1, 2)
    place = symbols(twice.shape[1], count, 1, random)
    text = torch.cat([twice.scatter(1, place, HOLE), torch.full((count, length % 2), FILL)], 1)
    return text, twice.gather(1, place)


@algorithm(
    "context-sensitive",
    "the second, the fourth, ... symbol, then the first, the third, ...",
    symbols=2,
    classes=2,
    answers=lambda length: length,
)
def odds_first(count: int, length: int, random: Generator) -> Texts:
    """00110101 -> 0111 0100: the odd positions, counted from 0 as in the papers' code, then the even ones."""
    text = symbols(2, count, length, random)
    return text, torch.cat([text[:, 1::2], text[:, ::2]], 1)


@algorithm(
    "context-sensitive",
    "the sum of two binary numbers, lowest bits first",
    symbols=3,
    classes=3,
    answers=lambda length: length + 1,
    ends=True,
)
def binary_addition(count: int, length: int, random: Generator) -> Texts:
    """001 + 01101 -> 01011 END 0000 (4 + 22 = 26). Below 3 symbols there is one number, which is the sum."""
    if length < 3:
        text = symbols(2, count, length, random)
        return text, _closed([_bits(_number(row)) for row in text.tolist()], length + 1)
    pairs, text = _two_numbers(count, length, random)
    return text, _closed([_bits(first + second) for first, second in pairs], length + 1)


@algorithm(
    "context-sensitive",
    "the product of two binary numbers, lowest bits first",
    symbols=3,
    classes=3,
    answers=lambda length: length,
    ends=True,
)
def binary_multiplication(count: int, length: int, random: Generator) -> Texts:
    """001 * 01101 -> 0001101 END 0 (4 * 22 = 88). Below 3 symbols there is one number, and the answer is
    zeros and END.
    """
    if length < 3:
        return symbols(2, count, length, random), _closed([[0] * (length - 1)] * count, length)
    pairs, text = _two_numbers(count, length, random)
    return text, _closed([_bits(first * second) for first, second in pairs], length)


@algorithm(
    "context-sensitive",
    "the whole square root of a binary number, highest bits first",
    symbols=2,
    classes=2,
    answers=lambda length: (length + 1) // 2,
)
def compute_sqrt(count: int, length: int, random: Generator) -> Texts:
    """100101 -> 110 (37 -> 6). The number is above 0."""
    draw = _plain(random)
    numbers = [_above_zero(length, draw) for _ in range(count)]
    roots = [math.isqrt(number) for number in numbers]
    half = (length + 1) // 2
    return (
        torch.tensor([_bits(number, length)[::-1] for number in numbers]),
        torch.tensor([_bits(root, half)[::-1] for root in roots]),
    )


@algorithm("context-sensitive", "the symbols in order", symbols=5, classes=5, answers=lambda length: length)
def bucket_sort(count: int, length: int, random: Generator) -> Texts:
    """10204112 -> 00111224."""
    text = symbols(5, count, length, random)
    return text, text.sort(1).values


def _two_numbers(
    count: int, length: int, random: Generator
) -> tuple[list[tuple[int, int]], Int[Tensor, "N T"]]:
    """Numbers above 0 with END between them. The length of the first is drawn evenly; zeros fill each number
    to its length.
    """
    draw = _plain(random)
    pairs, texts = list[tuple[int, int]](), list[list[int]]()
    for _ in range(count):
        first = 1 + int(draw() * (length - 2))
        low, high = _above_zero(first, draw), _above_zero(length - 1 - first, draw)
        pairs.append((low, high))
        texts.append([*_bits(low, first), END, *_bits(high, length - 1 - first)])
    return pairs, torch.tensor(texts)


# --- Parts of tasks


def symbols(kinds: int, count: int, length: int, random: Generator) -> Int[Tensor, "N T"]:
    """0 to kinds - 1, drawn evenly."""
    return torch.randint(kinds, (count, length), generator=random)


def _plain(random: Generator) -> Draw:
    """Python's own generator, which is fast for single draws; seeded by `random`."""
    return plain_random.Random(int(torch.randint(2**62, (), generator=random))).random


def _above_zero(bits: int, draw: Draw) -> int:
    """1 to 2^bits - 1, drawn 32 bits at a time, since a float has 53, and again if all are zero."""
    while True:
        number = 0
        for done in range(0, bits, 32):
            width = min(32, bits - done)
            number |= int(draw() * 2**width) << done
        if number:
            return number


def _bits(number: int, width: int = 0) -> list[int]:
    """Lowest first, with zeros up to the width.

    >>> _bits(6), _bits(6, 5), _bits(0)
    ([0, 1, 1], [0, 1, 1, 0, 0], [0])
    """
    return [int(bit) for bit in reversed(f"{number:0{width}b}")]


def _number(bits: Sequence[int]) -> int:
    return sum(bit << place for place, bit in enumerate(bits))


def _closed(answers: Sequence[Sequence[int]], width: int) -> Int[Tensor, "N A"]:
    """The answers of each text, END, and zeros up to the width."""
    return torch.tensor([[*row, END, *[0] * (width - 1 - len(row))] for row in answers])
