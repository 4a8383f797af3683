"""A Decision Transformer in a simulator, with a shifted clock.

Chen et al. (2021) add a learned vector of the time in the episode. Here a token per decision contains the
return to go, the observation and the last action. The policy learns from the episodes of a noisy controller
and then balances a pole (CartPole-v1, 200 steps). It sees positions with noise and no velocities, and an
action is repeated for one to three steps at random: it needs the order of its observations and the time
between them. In training the clock of an episode starts at 0.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
import torch
from jaxtyping import Bool, Float, Int
from numpy.typing import NDArray
from torch import Generator, Tensor, nn
from torch.nn import functional as F

from vnait.positions.coordinates import Index
from vnait.positions.encodings import ShawBias
from vnait.positions.method import Method
from vnait.shared.statistics import Interval, interval
from vnait_lab.kit import (
    Bars,
    Figure,
    Lines,
    Stack,
    above,
    below,
    clear,
    descend,
    each,
    figure,
    listed,
    within,
)
from vnait_lab.study import Budget, Findings, Metrics, Study, Verdict

LIMIT, HELD = 200, 3  # simulator steps per episode, and at most per decision
WINDOW, CHANNELS = 12, 4  # decisions that a policy sees, and numbers in a token
SEEN, SCALE, NOISE = (0, 2), (1.0, 0.1), (0.05, 0.04)  # the cart's position (m) and the pole's angle (rad)
# Weights of position, velocity, angle and its velocity: push where the sum is.
CONTROL = (0.05, 0.1, 1.0, 0.3)
DIM, HEADS, BATCH, EPISODES = 32, 4, 32, 32
SMALLEST = 10.0  # steps of return

STARTS = (0, 100, 500, 1000)
# The clock's start, its rate, and the most steps per decision.
TESTS = (*((start, 1, HELD) for start in STARTS), (0, 2, HELD), (0, 1, 1), (1000, 1, 1))
DOUBLE, EVEN, EVEN_LATE = 4, 5, 6

ABSOLUTE, RELATIVE = ("learned", "sinusoidal"), ("relative", "rope")
VARIANTS = {
    "none": "no times",
    "learned": "a learned vector of the time is added, as in the paper; past 199 the last one",
    "sinusoidal": "a sinusoidal code of the time is added",
    "relative": "a learned bias per head of the difference of times",
    "rope": "queries and keys turned by their times",
    "relative, counted": "as relative, of the number of the decision in place of its time",
    "rope, counted": "as rope, by the number of the decision",
    "vnait-causal": "decisions are counted in the window",
    "one step": "as relative, with a window of one decision",
    "last two": "no Transformer: a perceptron of the last two observations",
    "window": "no Transformer: a perceptron of all that the window contains",
    "rules": "no model: the controller with its noise, without it, and random actions",
}

Array = NDArray[Any]
# (rows of episodes that decide now, their states, their observations, the time, their return) -> actions
Act = Callable[[Array, Array, Array, int, Array], Array]
STUDY = Study.of(
    __name__,
    source="004, time invariance",
    data=f"CartPole-v1 of gymnasium, episodes of at most {LIMIT} steps; the policy sees noisy positions, no "
    f"velocities, and each action is repeated for 1 to {HELD} steps at random; it learns from episodes of a "
    "controller that knows the state, and acts at random in a share of 0 to 80 % drawn per episode",
    measure=f"mean return of {EPISODES} new episodes per seed, the same ones in every test",
    smallest="10 steps of 200",
    variants=VARIANTS,
    full=Budget(seeds=5, steps=400, samples=250),
    quick=Budget(seeds=3, steps=60, samples=40),
    needs="package:gymnasium",
)


def due(episodes: int, most: int, seed: int) -> Array:
    """Where an episode decides, (episodes, LIMIT): at 0, and then every 1 to `most` steps."""
    drawn = np.random.default_rng(seed).integers(1, most + 1, (episodes, LIMIT))
    at = np.cumsum(drawn, 1) - drawn[:, :1]
    decides = np.zeros((episodes, LIMIT), dtype=bool)
    row, column = np.nonzero(at < LIMIT)
    decides[row, at[row, column]] = True
    return decides


def play(act: Act, episodes: int, seed: int, most: Sequence[int]) -> Array:
    """Returns, (len(most), episodes). For each `most` the same episodes: equal first states and noise."""
    import gymnasium

    count = episodes * len(most)
    simulator: Any = gymnasium.make_vec(
        "CartPole-v1", num_envs=count, vectorization_mode="vector_entry_point"
    )
    first, _ = simulator.reset(seed=seed)
    states = np.tile(first[:episodes], (len(most), 1))
    simulator.unwrapped.state = states.T.copy()
    noise = np.random.default_rng(seed).normal(size=(LIMIT, episodes, len(SEEN))) * NOISE
    decides = np.concatenate([due(episodes, each, seed) for each in most])
    alive, actions, earned = np.ones(count, dtype=bool), np.zeros(count, dtype=np.int64), np.zeros(count)
    for time in range(LIMIT):
        rows = np.flatnonzero(alive & decides[:, time])
        if len(rows):
            seen = states[:, SEEN] + np.tile(noise[time], (len(most), 1))
            actions[rows] = act(rows, states[rows], seen[rows], time, earned[rows])
        states, reward, ended, _, _ = simulator.step(actions)
        earned += reward * alive
        alive &= ~ended
        if not alive.any():
            break
    simulator.close()
    return earned.reshape(len(most), episodes)


class Window(NamedTuple):
    """What a policy sees: the last decisions, padded on the left.

    tokens    observations (2), return so far, last action (-1, 1; 0: none); returns in shares of LIMIT
    times     the simulator's step, and the number of the decision
    goal      the return of the whole episode that is wanted, or was had
    """

    tokens: Float[Tensor, "B T 4"]
    times: Float[Tensor, "B T 2"]
    real: Bool[Tensor, "B T"]
    goal: Float[Tensor, " B"]


class Memory:
    """The windows of many episodes at once."""

    def __init__(self, episodes: int) -> None:
        self.tokens = torch.zeros(episodes, WINDOW, CHANNELS)
        self.times = torch.zeros(episodes, WINDOW, 2)
        self.real = torch.zeros(episodes, WINDOW, dtype=torch.bool)
        self.last, self.number = torch.zeros(episodes), torch.zeros(episodes)

    def see(self, rows: Array, seen: Array, time: int, earned: Array) -> Window:
        """The windows of these episodes, with a new token at the end."""
        at = torch.from_numpy(rows)
        scaled = np.concatenate([seen / SCALE, earned[:, None] / LIMIT], 1)
        token = torch.cat([torch.tensor(scaled, dtype=torch.float32), self.last[at, None]], 1)
        times = torch.stack([torch.full((len(at),), float(time)), self.number[at]], 1)
        new = (token, times, torch.ones(len(at), dtype=torch.bool))
        for line, entry in zip((self.tokens, self.times, self.real), new, strict=True):
            line[at] = torch.cat([line[at, 1:], entry[:, None]], 1)
        self.number[at] += 1
        return Window(self.tokens[at], self.times[at], self.real[at], torch.ones(len(at)))

    def did(self, rows: Array, actions: Array) -> None:
        self.last[torch.from_numpy(rows)] = torch.from_numpy(actions).float() * 2 - 1


class Controller:
    """Push to where the weighted sum of the true state is; a share of its actions, drawn per episode, is
    random.
    """

    def __init__(self, episodes: int, seed: int, *, most: float) -> None:
        self.random = np.random.default_rng([seed, 1])
        self.share = self.random.uniform(0, most, episodes)
        self.memory = Memory(episodes)
        self.windows: list[Window] = []
        self.rows: list[Array] = []
        self.actions: list[Array] = []

    def __call__(self, rows: Array, states: Array, seen: Array, time: int, earned: Array) -> Array:
        right = (states @ np.array(CONTROL) > 0).astype(np.int64)
        blind = self.random.random(len(rows)) < self.share[rows]
        actions = np.where(blind, self.random.integers(0, 2, len(rows)), right)
        self.windows.append(self.memory.see(rows, seen, time, earned))
        self.rows.append(rows)
        self.actions.append(actions)
        self.memory.did(rows, actions)
        return actions


def demonstrated(episodes: int, seed: int) -> tuple[Window, Int[Tensor, "N T"]]:
    """Every window of the controller's episodes, with their returns, and the actions taken."""
    controller = Controller(episodes, seed, most=0.8)
    (returns,) = play(controller, episodes, seed, [HELD])
    tokens, times, real, _ = map(torch.cat, zip(*controller.windows, strict=True))
    goal = torch.tensor(returns[np.concatenate(controller.rows)] / LIMIT, dtype=torch.float32)
    before = (tokens[:, 1:, -1] > 0).long()  # the action of a token is the next one's last action
    actions = torch.cat([before, torch.from_numpy(np.concatenate(controller.actions))[:, None]], 1)
    return Window(tokens, times, real, goal), actions


class Policy(Stack):
    """Windows -> logits of the actions (B, T, 2), of a Transformer in which a token sees those before it."""

    def __init__(self, variant: str) -> None:
        name, _, counted = variant.partition(", ")
        enter = nn.Linear(CHANNELS, DIM)
        bias = Method(coordinates=Index(), encoding=ShawBias(num_heads=HEADS, max_distance=HELD * WINDOW))
        super().__init__(
            bias if name in ("relative", "one step") else name,
            vectors=enter,
            outputs=2,
            dim=DIM,
            num_heads=HEADS,
            num_layers=1,
            max_length=LIMIT,
            mean_length=WINDOW,
            causal=True,
            window=1 if name == "one step" else None,
        )
        self.name, self.clock = name, 1 if counted else 0

    def forward(self, window: Window) -> Float[Tensor, "B T 2"]:
        places = window.times[..., self.clock, None]
        if self.name == "learned":
            places = places.clamp(max=LIMIT - 1)
        known = None if self.name == "vnait-causal" else places
        return self.read(self.states(conditioned(window), window.real, known)[-1])


class Perceptron(nn.Module):
    """Windows -> logits of the actions (B, T, 2), of the first channels of the last tokens."""

    def __init__(self, *, tokens: int, channels: int) -> None:
        super().__init__()
        self.tokens, self.channels = tokens, channels
        sizes = (tokens * channels, 2 * DIM, 2 * DIM)
        layers = [part for pair in pairwise(sizes) for part in (nn.Linear(*pair), nn.GELU())]
        self.net = nn.Sequential(*layers, nn.Linear(2 * DIM, 2))

    def forward(self, window: Window) -> Float[Tensor, "B T 2"]:
        read = conditioned(window)[..., : self.channels] * window.real[..., None]
        return self.net(F.pad(read, (0, 0, self.tokens - 1, 0)).unfold(1, self.tokens, 1).flatten(2))


def conditioned(window: Window) -> Float[Tensor, "B T 4"]:
    """The tokens, with the return to go in place of the return so far."""
    seen, earned, last = window.tokens.split([2, 1, 1], -1)
    return torch.cat([seen, window.goal[:, None, None] - earned, last], -1)


def policy(variant: str) -> nn.Module:
    if variant == "last two":
        return Perceptron(tokens=2, channels=2)
    return Perceptron(tokens=WINDOW, channels=CHANNELS) if variant == "window" else Policy(variant)


@STUDY.runs
def run(variant: str, seed: int, budget: Budget) -> Metrics:
    test = 1000 + seed
    if variant == "rules":
        return rules(test)
    torch.manual_seed(seed)
    random, model = Generator().manual_seed(seed), policy(variant)
    windows, actions = demonstrated(budget.samples, seed)

    def loss(step: int) -> Tensor:
        rows = torch.randint(len(actions), (BATCH,), generator=random)
        drawn = Window(*(part[rows] for part in windows))
        return F.cross_entropy(model(drawn)[drawn.real], actions[rows][drawn.real])

    descend(model.parameters(), loss, steps=budget.steps, learning_rate=5e-3, weight_decay=0.01)
    returns = played(model.eval(), test)
    return {"return": returns[0], "double": returns[DOUBLE], "even": returns[EVEN], "returns": returns}


def played(model: nn.Module, seed: int) -> list[float]:
    """The mean return of each of `TESTS`; the policy takes the likelier action, and the goal is LIMIT."""
    memory = Memory(EPISODES * len(TESTS))
    start, rate = (
        torch.tensor(values).repeat_interleave(EPISODES) for values in list(zip(*TESTS, strict=True))[:2]
    )

    @torch.no_grad()
    def act(rows: Array, states: Array, seen: Array, time: int, earned: Array) -> Array:
        window = memory.see(rows, seen, time, earned)
        clock = (start[rows, None, None] + rate[rows, None, None] * window.times).float()
        actions: Array = model(window._replace(times=clock))[:, -1].argmax(-1).numpy()
        memory.did(rows, actions)
        return actions

    return [float(mean) for mean in play(act, EPISODES, seed, [most for _, _, most in TESTS]).mean(1)]


def rules(seed: int) -> Metrics:
    """Mean returns without a model, at varied steps per decision."""
    shares = {"noisy": Controller(EPISODES, seed, most=0.8), "return": Controller(EPISODES, seed, most=0.0)}
    random = np.random.default_rng([seed, 2])
    metrics = {name: float(play(act, EPISODES, seed, [HELD]).mean()) for name, act in shares.items()}
    blind = play(lambda rows, *_: random.integers(0, 2, len(rows)), EPISODES, seed, [HELD])
    return {**metrics, "random": float(blind.mean())}


def change(findings: Findings, variant: str, test: int) -> Interval:
    """The return in a test minus that with the clock of the training, paired by seed."""
    returns = findings.curve(variant, "returns")
    return interval((returns[:, test] - returns[:, EVEN if test == EVEN_LATE else 0]).tolist())


def returned(findings: Findings, *variants: str) -> str:
    return findings.listed(variants, "return", "{:.0f}")


@STUDY.control(
    "with a window of one decision the return is more than 20 steps lower",
    variant="one step",
    mechanism="relative",
)
def one_step_is_lower(findings: Findings) -> bool:
    return findings.mean("one step", "return") < findings.mean("relative", "return") - 20


@STUDY.claim("A Decision Transformer with relative positions keeps its return when the clock is shifted")
def judge_relative(findings: Findings) -> Verdict:
    """By the positions with which every change of the return, with its interval, is less than 10 steps: by
    100, 500 and 1000, and by 1000 at one step per decision.
    """
    late = [*range(1, len(STARTS)), EVEN_LATE]
    shifts = {name: [change(findings, name, test) for test in late] for name in RELATIVE}
    summary = "; ".join(
        f"{returned(findings, name)} of {LIMIT}, changes by at most {max(abs(by.mean) for by in moved):.1f}"
        for name, moved in shifts.items()
    )
    holds = {name: all(within(by, SMALLEST) for by in moved) for name, moved in shifts.items()}
    return each(holds, summary, "the positions are {}")


@STUDY.claim("With absolute times the return falls when the clock is shifted past the training")
def judge_absolute(findings: Findings) -> Verdict:
    """By the positions with which the return falls by more than 10 steps, interval included, by shifts of 500
    and of 1000.
    """
    shifts = {name: [change(findings, name, test) for test in range(1, len(STARTS))] for name in ABSOLUTE}
    summary = "; ".join(
        f"{returned(findings, name)}, by {', '.join(map(str, STARTS[1:]))}: "
        + ", ".join(by.written("{:+.0f}") for by in moved)
        for name, moved in shifts.items()
    )
    even = listed({name: change(findings, name, EVEN_LATE) for name in ABSOLUTE}, "{:+.0f}")
    summary += f"; at one step per decision, by {STARTS[-1]}: {even}"
    falls = {name: all(below(by, -SMALLEST) for by in moved[1:]) for name, moved in shifts.items()}
    return each(falls, summary, "the positions are {}")


@STUDY.claim(
    "Relative positions cost no return where the clock is that of the training",
    needs=("vnait-causal", "window"),
)
def judge_cost(findings: Findings) -> Verdict:
    """Confirmed if no relative positions are 10 steps or more below any absolute ones, counted decisions or a
    perceptron of the window, interval included; refuted if some are for sure.
    """
    leads = {
        f"{name} minus {against}": findings.difference(name, against, "return")
        for name in RELATIVE
        for against in (*ABSOLUTE, "vnait-causal", "window")
    }
    return clear(leads.values(), listed(leads, "{:+.0f}", join="; "), least=-SMALLEST)


@STUDY.claim("At varied steps per decision the true times help, against counted decisions")
def judge_times(findings: Findings) -> Verdict:
    """By the positions with which times raise the return, interval included; undecided if none does and an
    interval reaches 10 steps.
    """
    gains = {name: findings.difference(name, f"{name}, counted", "return") for name in RELATIVE}
    summary = "; ".join(
        f"{returned(findings, name, f'{name}, counted')}: {gain.written('{:+.0f}')}"
        for name, gain in gains.items()
    )
    helps = {name: gain.sign > 0 for name, gain in gains.items()}
    reach = any(not below(gain, SMALLEST) for gain in gains.values())
    return each(helps, summary, "the positions are {}", undecided=reach)


@STUDY.claim("Relative positions also keep the return when the clock runs at double rate")
def judge_rate(findings: Findings) -> Verdict:
    """By the relative positions with which the return changes by less than 10 steps, interval included;
    undecided if there are none, and no fall of more than 10 steps.
    """
    moved = {name: change(findings, name, DOUBLE) for name in (*RELATIVE, *ABSOLUTE)}
    return each(
        {name: within(moved[name], SMALLEST) for name in RELATIVE},
        listed(moved, "{:+.0f}", join="; "),
        "the positions are {}",
        undecided=not any(below(moved[name], -SMALLEST) for name in RELATIVE),
    )


@STUDY.claim(
    "Positions raise the return of a causal policy",
    needs=("vnait-causal", "last two", "window", "rules"),
)
def judge_needed(findings: Findings) -> Verdict:
    """By the positions with a return of more than 10 steps above that without, interval included."""
    gains = findings.differences((*RELATIVE, *ABSOLUTE, "vnait-causal"), "none", "return")
    noisy, clean, blind = (findings.mean("rules", name) for name in ("noisy", "return", "random"))
    summary = f"{returned(findings, 'none')}; {listed(gains, '{:+.0f}')}; {returned(findings, 'one step')}; "
    summary += f"perceptrons: {returned(findings, 'last two', 'window')}; controller {noisy:.0f}, "
    summary += f"without its noise {clean:.0f}, random {blind:.0f}"
    raised = {name: above(gain, SMALLEST) for name, gain in gains.items()}
    return each(raised, summary, "the positions are {}")


@STUDY.draws
def draw(findings: Findings) -> Figure:
    returns = findings.curves(("none", *RELATIVE, *ABSOLUTE), "returns")
    shifted = {name: curve[:, : len(STARTS)] for name, curve in returns.items()}
    clocks = {"clock of the training": "return", "clock at double rate": "double"}
    policies = [variant for variant in VARIANTS if variant != "rules"]
    rows = {clock: findings.curves(policies, metric) for clock, metric in clocks.items()}
    noisy = {"the noisy controller": findings.mean("rules", "noisy")}
    starts, start = [f"{start}" for start in STARTS], "start of the clock (steps), not to scale"
    return figure(
        Lines(starts, shifted, start, "return (steps)", ylim=(0, LIMIT)),
        Bars(rows, "return (steps)", at_x=noisy, xlim=(0, LIMIT), legend="below"),
    )
