"""Whether the tokens that `vnait explain` names decide: deletion curves.

    VNAIT_DATA=DIR python -m vnait_lab.runs.deletion [--sets splice,mr,trec] [--shots 32] [--seeds 3]

Per set and draw, `vnait` learns from 32 rows per class. In each of 33 test texts the tokens that add most to
the answer's logit become unknown words, at their places: 10, 20, 30 and 50 % of them. Printed is how far the
answer's probability falls, in points: the mean over these shares and over all texts, with its 95 % interval.
Orders:

    adds         what each token adds to the logit, as `vnait explain` shows it
    bag          what it adds to the bag of words alone
    leaving out  how far the logit falls if the token alone becomes an unknown word
    random       mean of five random orders
"""

from collections.abc import Iterator, Mapping, Sequence

import numpy as np
import torch
from numpy.typing import NDArray

from vnait.results.explanation import explain
from vnait.results.fitted import Fitted
from vnait.shared.processes import one_thread
from vnait.shared.statistics import interval
from vnait.train.fitting import fit
from vnait_lab.runs import data_folder, parser
from vnait_lab.suites.few_labels import RUN, plan_of

METHOD = "vnait"
SHARES = (0.1, 0.2, 0.3, 0.5)  # of a text's tokens
RANDOM = 5  # random orders
ORDERS = ("adds", "bag", "leaving out", "random")
Line = NDArray[np.float64]


def falls(fitted: Fitted, text: str, generator: np.random.Generator) -> dict[str, Line]:
    """Per order the fall of the answer's probability at each of `SHARES`, (4,)."""
    explanation = explain(fitted, text)
    assert explanation.attribution is not None and explanation.bag_contribution is not None
    answer = fitted.classes.index(explanation.answer)
    (ids,) = fitted.ids([text])
    parts = {
        "adds": np.array(explanation.attribution),
        "bag": np.array(explanation.bag_contribution),
        "leaving out": -_logits(fitted, ids, np.eye(len(ids), dtype=bool), answer),
    }
    curves = {name: _fall(fitted, ids, values, answer, generator) for name, values in parts.items()}
    random = [_fall(fitted, ids, np.zeros(len(ids)), answer, generator) for _ in range(RANDOM)]
    return {**curves, "random": np.mean(random, axis=0)}


def _fall(fitted: Fitted, ids: list[int], values: Line, answer: int, generator: np.random.Generator) -> Line:
    """How far the probability falls without the tokens of the highest values, at each of `SHARES`."""
    order = np.lexsort((generator.random(len(ids)), -values))  # equal values in a random order
    removed = np.zeros((1 + len(SHARES), len(ids)), dtype=bool)
    for row, share in enumerate(SHARES, 1):
        removed[row, order[: max(1, round(share * len(ids)))]] = True
    probabilities = _outputs(fitted, ids, removed).softmax(-1)[:, answer].numpy()
    return probabilities[0] - probabilities[1:]


def _logits(fitted: Fitted, ids: list[int], removed: NDArray[np.bool_], answer: int) -> Line:
    logits = _outputs(fitted, ids, removed)
    return (logits[:, answer] - logits.mean(-1)).numpy()


@torch.no_grad()
def _outputs(fitted: Fitted, ids: list[int], removed: NDArray[np.bool_]) -> torch.Tensor:
    """Logits (rows, classes) of a text whose tokens `removed` (rows, T) are unknown words."""
    rows = torch.tensor(ids).expand(len(removed), -1)
    rows = rows.masked_fill(torch.from_numpy(removed), fitted.tokenizer.unk_token_id)
    return fitted.model.eval()(rows).logits.double()


def texts_of(name: str, data: str, shots: int, seeds: int, texts: int) -> Iterator[dict[str, Line]]:
    """The curves of each text."""
    plan = plan_of(name, data, (METHOD,), (shots,), range(seeds), RUN)
    words = plan.vocabulary(0)
    for seed in plan.seeds:
        table, test = plan.rows(shots, seed)
        generator = np.random.default_rng(seed)
        fitted = fit(RUN, table, words)
        for row in generator.permutation(len(test))[:texts]:
            yield falls(fitted, test.texts[row], generator)


def line(name: str, curves: Sequence[Mapping[str, Line]]) -> str:
    """The row of a set: the mean fall by each order, and by `adds` minus each of the others."""
    means = {order: np.array([curve[order].mean() for curve in curves]) for order in ORDERS}
    minus = [means["adds"] - means[order] for order in ORDERS[1:]]
    cells = [_points(values, "") for values in means.values()] + [_points(values, "+") for values in minus]
    return f"| {name} | {' | '.join(cells)} |"


def _points(values: Line, sign: str) -> str:
    return interval(values.tolist()).times(100).written("{:" + sign + ".1f}")


def main() -> None:
    command = parser(__doc__, seeds=3, jobs=False, sets=("splice", "mr", "trec"))
    command.add_argument("--shots", type=int, default=32, help="rows per class [%(default)s]")
    command.add_argument("--texts", type=int, default=33, help="test texts per draw [%(default)s]")
    options = command.parse_args()
    data = str(data_folder(command))
    print(f"| set | {' | '.join(ORDERS)} | {' | '.join(f'adds minus {order}' for order in ORDERS[1:])} |")
    print("|---" * (2 * len(ORDERS)) + "|", flush=True)
    with one_thread():
        for name in options.sets:
            curves = list(texts_of(name, data, options.shots, options.seeds, options.texts))
            print(line(name, curves), flush=True)


if __name__ == "__main__":
    main()
