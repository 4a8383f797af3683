"""The settings of one training. The estimators and the command line take names and defaults from here."""

import math
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass, field, fields
from typing import Any, Self

from vnait.data.tasks import CLASSIFICATION, MULTILABEL, REGRESSION, TAGGING
from vnait.positions.methods import BASE_POSITIONS, METHODS, unknown
from vnait.shared.errors import InputError, did_you_mean

TRACKERS = ("csv", "tensorboard", "wandb", "mlflow")
# Settings that keys have only away from their default, and by another name, so that earlier keys stay.
LATER = ("threads", "holdout", "class_weight", "lora")
EARLIER_NAMES = {"early_stopping": "refit"}
MOST_HELD_OUT = 2_000  # validation rows: more take time, and 2,000 separate accuracies by 2 points
MOST_STEPS = 4_000  # by default, however many rows there are
EVALUATIONS = 40  # of a training, at most
COUNTS = ("batch_size", "num_layers", "max_length", "eval_every", "patience", "threads", "steps", "num_heads")
RANGES = {  # at least, below, in words
    "learning_rate": (math.ulp(0.0), math.inf, "above 0 and finite"),
    **dict.fromkeys(("weight_decay", "smoothness", "boundary"), (0, math.inf, "0 or more, and finite")),
    **dict.fromkeys(("validation", "dropout", "warmup", "bag"), (0, 1, "in [0, 1)")),
    "early_stopping": (0, math.inf, "a number of rows"),
}
SIMPLE = ("tfidf", "one-hot", "averaged")  # linear models, which `train.baselines` fits
SIMPLE_OF = {  # by task
    CLASSIFICATION: SIMPLE,
    REGRESSION: ("mean", *SIMPLE),
    TAGGING: ("frequent-tag", "window-logreg"),
    MULTILABEL: ("majority", *SIMPLE),
}
READS_VECTORS = ("averaged",)  # of the simple models
READS_MORE = ("tfidf",)  # of the simple models: how many texts without labels have a term
FROZEN = "frozen"  # with a base: logistic regression of its embeddings
PREFIX = "base:"  # in a comparison, of methods attached to the pretrained base
BALANCED = "balanced"  # of class weights, as in scikit-learn
RATE, BASE_RATE, LORA_RATE = 3e-3, 1e-4, 5e-4  # default learning rates, of a model from scratch, a base, LoRA


def setting(default: Any, text: str) -> Any:
    """A field of `Run` and its description, which the command line prints in its help."""
    return field(default=default, metadata={"help": text})


@dataclass(frozen=True, kw_only=True)
class Run:
    """The settings of one training; `Run.help("steps")` describes one.

    An InputError lists every setting that is out of its range.
    """

    method: str = setting(
        "vnait",
        f"A name from `vnait list`, or a simple model: {', '.join(SIMPLE)}; with --base also own, its own "
        "positions, or frozen, logistic regression of its embeddings.",
    )
    seed: int = setting(0, "Seed of splits, initial weights and batches, in [0, 2^32).")
    steps: int | None = setting(
        None, "Optimizer steps at most. Default: three epochs, but from 150 to 4,000 steps."
    )
    batch_size: int = setting(32, "Texts per optimizer step.")
    learning_rate: float | None = setting(
        None,
        "Peak learning rate of AdamW's schedule. Default: 3e-3; 1e-4 of a pretrained base, "
        "5e-4 of its adapters.",
    )
    weight_decay: float = setting(0.01, "Weight decay of AdamW, for matrices.")
    warmup: float = setting(0.1, "Share of the steps in which the learning rate rises, in [0, 1).")
    dropout: float = setting(0.2, "Dropout probability, in [0, 1).")
    num_layers: int = setting(2, "Layers of the Transformer.")
    num_heads: int | None = setting(
        None,
        "Attention heads. Default: the first of 4, 6, 5, 3, 2, 1 that gives heads of an even width.",
    )
    max_length: int = setting(512, "Longer texts are cut to this many tokens.")
    tune_vectors: bool = setting(False, "Train the semantic vectors too.")
    smoothness: float = setting(
        0.1, "gamma_1, the weight of the penalty that pulls the gaps of a learned span to uniform ones."
    )
    boundary: float = setting(
        0.1, "gamma_2, the weight of the penalty that keeps a span with soft bounds in [0, 100]."
    )
    validation: float = setting(
        0.2, "Share of the rows held out for validation and early stopping, in [0, 1); 2,000 rows at most."
    )
    eval_every: int = setting(25, "Steps between two evaluations; more if there would be over 40.")
    patience: int = setting(4, "Evaluations without a better validation loss before training stops early.")
    # With few labels the validation loss is noise, and a fifth of them is worth more than early stopping.
    early_stopping: int = setting(2_000, "With more rows than this, training stops early.")
    holdout: bool = setting(
        False,
        "Never learn from the held-out rows: the best step on them is the model. Default: the last third of "
        "the steps learns from all rows.",
    )
    bag: float | None = setting(
        None,
        "Share of the logits from a bag of words, in [0, 1); with 0 there is no linear part beside the "
        "Transformer. Default: of the linear part that training rows choose, by its skill.",
    )
    one_hot: bool = setting(
        True,
        "Whether training rows may choose one-hot words, which see the order, as the linear part in place of "
        "the bag of words; beside none they may not.",
    )
    class_weight: Mapping[str, float] | str | None = setting(
        None,
        "How much the rows of each label count: balanced, so that all labels count the same in sum, or "
        "a=2,b=1, with 1 for the others. Default: each row 1.",
    )
    base: str | None = setting(
        None, "A pretrained encoder to fine-tune: a folder or a name on the hub. Default: from scratch."
    )
    lora: bool = setting(
        False,
        "Train LoRA adapters of the base, and leave its weights as they are: less memory, a small folder.",
    )
    threads: int = setting(
        1, "CPU threads; the last digits of the weights depend on it. More are faster for a pretrained base."
    )

    track: str | None = setting(
        None,
        f"Where to log each step; files go to runs/logs [possible values: {', '.join(TRACKERS)}]. "
        "Default: nowhere.",
    )

    def __post_init__(self) -> None:
        for name, value in vars(self).items():
            if hasattr(value, "item"):  # numpy's, from a grid search; what is saved are plain numbers
                object.__setattr__(self, name, value.item())
        if problems := list(self._problems()):
            raise InputError("; ".join(problems) + ".")

    @classmethod
    def of(cls, settings: Mapping[str, Any], **changes: Any) -> Self:
        """The run of a record's `settings`, with changes; what it lacks, or has from a later version, is left
        at its default, or out.
        """
        known = {item.name: settings[item.name] for item in fields(cls) if item.name in settings}
        return cls(**{**known, **changes})

    @classmethod
    def help(cls, name: str) -> str:
        """The description of a setting.

        >>> Run.help("batch_size")
        'Texts per optimizer step.'
        """
        (text,) = [str(item.metadata["help"]) for item in fields(cls) if item.name == name]
        return text

    def _problems(self) -> Iterator[str]:
        if not isinstance(self.method, str):
            yield f"method is {self.method!r}: it must be a name"
        elif self.method == BASE_POSITIONS and self.base is None:
            hint = "give one with --base (base= in Python)"
            yield f"method {BASE_POSITIONS!r} is a base's own positions: {hint}"
        elif self.method.startswith(PREFIX):
            inner = self.method.removeprefix(PREFIX)
            yield f"method {self.method!r} is for comparisons; a training takes {inner!r}"
        elif self.method != BASE_POSITIONS:
            yield from unknown([self.method])
        if self.lora and self.base is None:
            yield "lora is for a pretrained base: give one with --base (base= in Python)"
        for name in COUNTS:
            count = getattr(self, name)
            if count is None and name in ("steps", "num_heads"):
                continue
            if not isinstance(count, int) or isinstance(count, bool) or count < 1:
                yield f"{name} is {count!r}: it must be 1 or more, and whole"
        if not isinstance(self.seed, int) or not 0 <= self.seed < 2**32:
            yield f"seed is {self.seed}: it must be a whole number in [0, {2**32})"
        for name, (low, high, words) in RANGES.items():
            number = getattr(self, name)
            if number is None and name in ("bag", "learning_rate"):
                continue
            if not isinstance(number, int | float) or not low <= number < high:
                yield f"{name} is {number!r}: it must be {words}"
        if isinstance(self.class_weight, str) and self.class_weight != BALANCED:
            yield f"class_weight is {self.class_weight!r}: it must be {BALANCED}, or a number per label"
        if self.track not in (None, *TRACKERS):
            yield f"track is {self.track!r}: it must be one of {', '.join(TRACKERS)}"

    def check_penalties(self, names: Collection[str], *, prefix: str = "") -> None:
        """An InputError if the method has nothing that these settings, smoothness or boundary, weigh."""
        if not names:
            return
        from vnait.positions.building import build

        span = build(self.method, dim=24, num_heads=2).span
        if span is None:
            raise InputError(
                f"{self.method} has no learned span, which {prefix}smoothness and {prefix}boundary "
                "regularize; leave them out, or take a method such as vnait-warp."
            )
        if "boundary" in names and span.bounds is None:
            raise InputError(
                f"the coordinates of {self.method} have hard bounds, which keep them in (0, 100]; leave "
                f"{prefix}boundary out."
            )

    def check_bag(self, task: str) -> None:
        """An InputError if a share is set of a linear part that a model of this task lacks."""
        if self.bag and task == TAGGING:
            raise InputError(f"bag is {self.bag}: a tagger has no linear part beside it; leave it out.")

    @property
    def rate(self) -> float:
        """The peak learning rate: the default depends on the base."""
        if self.learning_rate is not None:
            return self.learning_rate
        if self.base is None:
            return RATE
        return LORA_RATE if self.lora else BASE_RATE

    @property
    def settings(self) -> dict[str, Any]:
        """What decides the result, for a record."""
        settings = {name: value for name, value in asdict(self).items() if name != "track"}
        return {**settings, "learning_rate": self.rate}

    @property
    def facts(self) -> dict[str, Any]:
        """The settings, for a key, which also has `mixing.choice_of`."""
        new = {name for name in LATER if getattr(self, name) == getattr(Run, name)} | {"one_hot"}
        settings = {name: value for name, value in self.settings.items() if name not in new}
        return {EARLIER_NAMES.get(name, name): value for name, value in settings.items()}

    def total_steps(self, rows: int) -> int:
        """The optimizer steps for this many training rows."""
        return self.steps or min(max(150, 3 * -(-rows // self.batch_size)), MOST_STEPS)

    def steps_between(self, steps: int) -> int:
        """The steps between two evaluations, of `steps` in all."""
        return max(self.eval_every, steps // EVALUATIONS)

    def held_out(self, rows: int) -> float:
        """The share of this many rows that is held out, at most `MOST_HELD_OUT` of them."""
        return min(self.validation, MOST_HELD_OUT / rows)


def unknown_methods(methods: Iterable[str], *, base: bool) -> Iterator[str]:
    """A clause for each method that a comparison doesn't know, or knows with a pretrained base only."""
    for method in methods:
        if method in SIMPLE:
            yield f"method {method!r} is a simple model, which every comparison has: leave it out"
        elif not method.startswith(PREFIX):
            yield from unknown([method])
        elif not base:
            yield f"method {method!r} needs a pretrained base: give one with --base (base= in Python)"
        elif (inner := method.removeprefix(PREFIX)) not in (BASE_POSITIONS, *(known := METHODS)):
            hint = f"After {PREFIX} comes {BASE_POSITIONS} or a method"
            yield f"method {method!r} is not known.{did_you_mean(inner, known)} {hint}"
