"""Comparison of methods x shots x seeds on identical splits, by paired differences with intervals."""

import logging
import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np

from vnait.comparison.plan import REST, Plan
from vnait.comparison.runs import Callback
from vnait.comparison.trainings import fit_model, run_plan, saved_training
from vnait.data import Table, read, summary, warn_of_repeats
from vnait.data.tasks import CLASSIFICATION, TAGGING
from vnait.positions.methods import BASE_POSITIONS
from vnait.results import card, record
from vnait.results.about import About, call
from vnait.results.advice import advice
from vnait.results.record import Record
from vnait.results.results import ALL, Results, Shots, listed
from vnait.shared.errors import InputError
from vnait.shared.files import atomic_file, home, locked
from vnait.shared.processes import one_thread
from vnait.train.predict import load
from vnait.train.replacing import check_replaceable
from vnait.train.run import PREFIX, Run
from vnait.train.tasks import target_of

logger = logging.getLogger("vnait")

Data = str | PathLike[str] | Table
DEFAULT_METHODS = ("none", "sinusoidal", "learned", "vnait-uniform", "vnait")
MODELS = ".models"  # folder of the candidates for `out`/model, deleted after the choice


@dataclass(frozen=True, kw_only=True, repr=False)
class Comparison:
    """The records of a comparison and the results computed from them; printed, its advice."""

    plan: Plan
    records: list[Record]
    reference: str
    path: Path

    @cached_property
    def results(self) -> Results:
        """The records of this plan's trainings, with tables and sentences."""
        by_key = {record.key: record for record in self.records}
        return Results(
            records=[by_key[self.plan.key(training)] for training in self.plan.trainings()],
            methods=(*self.plan.baselines, *self.plan.methods),
            shots=self.plan.shots,
            reference=self.reference,
        )

    @property
    def rows(self) -> list[dict[str, Any]]:
        """A row per method and number of shots: mean accuracy with interval, parameters, seconds."""
        return self.results.rows

    @property
    def paired(self) -> list[dict[str, Any]]:
        """A row per method and number of shots: paired difference to the reference, with interval."""
        return self.results.paired

    @property
    def table(self) -> Any:
        """`rows` as a pandas DataFrame."""
        import pandas as pd

        return pd.DataFrame(self.rows)

    @property
    def best(self) -> str:
        """The method that is advised and saved, chosen on the validation rows: `Results.best`."""
        best = self.results.best
        assert best is not None, "the plan holds validation rows out"
        return best

    @property
    def chance_level(self) -> float:
        """`Plan.chance_level` in the metric of the results."""
        return self.plan.chance_level(self.results.metric.name)

    def __repr__(self) -> str:
        return f"<Comparison of {listed(self.results.methods)} on {self.plan.table.name}: {self.path}>"

    def __str__(self) -> str:
        return "\n".join(self.advice())

    def sentences(self) -> list[str]:
        """Which methods are ahead of the reference, behind it, or can't be told apart from it."""
        return self.results.sentences()

    def advice(self) -> list[str]:
        """What to do, in up to six sentences."""
        return advice(self.results, chance_level=self.chance_level)

    def report(self) -> Path:
        """Write report.html beside the records, the same page as `vnait report`."""
        from vnait.results import report

        return report.write(self.path.parent)

    def picture(self) -> Path:
        """Write accuracy.png beside the records: each method's mean accuracy with its interval."""
        from vnait.results import drawing
        from vnait.results.drawing import accuracy

        path = self.path.parent / "accuracy.png"
        drawing.save(accuracy.figure(self.results, self.chance_level), path)
        return path


def compare(
    data: Data,
    *,
    methods: Sequence[str] = DEFAULT_METHODS,
    shots: Sequence[Shots] = (ALL,),
    seeds: int | Sequence[int] = 5,
    test: Data | None = None,
    out: str | Path = "runs/compare",
    text: str = "text",
    label: str = "label",
    task: str = CLASSIFICATION,
    vectors: str | None = None,
    vector_words: int | None = None,
    tokenization: str = "words",
    unlabelled: str = REST,
    base: str | None = None,
    run: Run | None = None,
    steps: int | None = None,
    reference: str | None = None,
    jobs: int | None = None,
    backend: str = "local",
    callback: Callback = lambda done, total, record: None,
    command: str | None = None,
    **reading: Any,
) -> Comparison:
    """Compare positional methods and simple models on a labelled file; save the best model in `out`/model.

    data        a file, such as reviews.csv; "hf:NAME"; "builtin:splice"; or a `Table`
    methods     names of `METHODS`, with "base:" before them those attached to `base`
    text, label     the columns of `data` and `test`; text="a,b" for pairs
    reading     of these files, as in `vnait.data.read`: sep, encoding, sheet, header, decimal, merge_labels,
                drop_contradicting, min_class, group
    vectors     a file of semantic vectors; None: Word2Vec is trained on the training texts
    vector_words    first words of that file that the models know, beside those of the training
                texts; None: 50,000
    tokenization    "words", "characters" or "jieba"
    unlabelled  what words, vectors and idf are learned from: "rest", the rest of the training texts too,
                without their labels, and the rows that have none; "none", the labelled rows alone
    shots       training rows per class (validation rows included), or "all"
    seeds       how many, or which; each seed has its own rows, splits, starting weights and batches, the same
                for every method
    task        "regression" if the labels are numbers, "tagging" if each word has a tag, "multilabel" if a
                text has any number of labels; a `Table` knows it
    test        a file of test rows; None: each seed holds out 30 % of the rows
    base        a pretrained encoder, a folder or a name on the hub; adds logistic regression on its frozen
                embeddings ("base:frozen") and its fine-tuning with its own positions ("base:own"); the method
                "base:vnait" attaches vnait to it
    run, steps  the settings of every training but `methods` and `seeds`, or only its steps
    reference   the method that the others are paired with; None: "vnait" if it is compared, else the first
    jobs        parallel runs, `Run.threads` cores each; None: all cores. The results do not depend on it
    backend     where they run: "local", "ray" (the cluster of RAY_ADDRESS) or "slurm"
    callback    called before the first run and after each: runs done, runs in all, the `Record` or None
    command     the command line, for the report; None: this call

    Records are kept in `out`/records.jsonl, and finished ones are not run again. `vnait report` also reads
    `out`/about.json. InputError if another process compares into the same folder.
    """
    command = command or call(compare, locals())  # first, while the locals are the arguments
    _check_lists(methods=methods, shots=shots)
    columns: dict[str, Any] = {"text": text, "label": label, "task": task, "min_class": 2, **reading}
    table = _labelled(data, **columns)
    plan = Plan(
        table=table,
        test=None if test is None else _labelled(test, **columns, of_tests=True, known=table.label_names),
        methods=_with_own_positions(methods, base),
        shots=tuple(int(count) if isinstance(count, np.integer) else count for count in shots),
        seeds=tuple(range(seeds)) if isinstance(seeds, int | np.integer) else tuple(map(int, seeds)),
        run=_run(run, steps),
        vectors=vectors,
        vector_words=vector_words,
        tokenization=tokenization,
        unlabelled=unlabelled,
        base=base,
    )
    reference = _reference(plan, reference)
    repeats = _check_rows(plan)
    out = Path(home(out))
    with locked(out):
        check_replaceable(out / "model")
        _warn_of_others(plan, out)
        facts = summary(plan.table, plan.tokenization)
        _warn_of_cuts(plan, facts["tokens"]["quantiles"][-1])
        path, models = out / "records.jsonl", out / MODELS
        records = run_plan(plan, path, jobs=jobs, backend=backend, callback=callback, keep=models)
        comparison = Comparison(plan=plan, records=records, reference=reference, path=path)
        _save_best(plan, comparison.best, models, out / "model")
        _describe(comparison, command, facts, repeats)
        return comparison


def _check_lists(**arguments: Sequence[object]) -> None:
    """Raise InputError for a string, whose letters would be read as a list of names."""
    for name, value in arguments.items():
        if isinstance(value, str):
            raise InputError(f"{name} is the string {value!r}; give a list, [{value!r}].")


def _with_own_positions(methods: Sequence[str], base: str | None) -> tuple[str, ...]:
    """The methods and, if there is a base, its own positions, without which the others prove nothing."""
    own_positions = f"{PREFIX}{BASE_POSITIONS}"
    if base is None or own_positions in methods:
        return tuple(methods)
    return (*methods, own_positions)


def _reference(plan: Plan, reference: str | None) -> str:
    reference = reference or ("vnait" if "vnait" in plan.methods else plan.methods[0])
    compared = (*plan.methods, *plan.baselines)
    if reference not in compared:
        raise InputError(f"reference {reference!r} is not compared: give one of {', '.join(compared)}.")
    return reference


def _check_rows(plan: Plan) -> int:
    """Check every split and the test rows; return how many test texts repeat a training text."""
    learn, tests = plan.split(plan.seeds[0])
    repeats = warn_of_repeats(learn.texts, tests.texts)
    _check_splits(plan)
    if plan.test is not None:
        target_of(plan.table).check(plan.test, plan.table.name)
    return repeats


def _describe(comparison: Comparison, command: str, facts: dict[str, Any], repeats: int) -> None:
    """Write about.json beside the records, and the card of the saved model."""
    plan, out = comparison.plan, comparison.path.parent
    about = About(
        command=command,
        reference=comparison.reference,
        runs=[record.key for record in comparison.results.records],
        data=facts,
        test=None if plan.test is None else summary(plan.test, plan.tokenization),
        repeated=repeats,
        most_frequent=comparison.chance_level,
    )
    about.write(out)
    # Also for a model saved by an earlier comparison, since other methods may have been compared since.
    with atomic_file(out / "model" / card.NAME) as draft:
        (winner,) = record.read(out / "model" / "record.json")
        draft.write_text(card.card(winner, facts, comparison.results), encoding="utf-8")


def _run(run: Run | None, steps: int | None) -> Run:
    if run is not None and steps is not None:
        raise InputError(
            f"steps={steps} was given with a run, which has steps={run.steps}; leave one of them out."
        )
    return run or Run(steps=steps)


def _warn_of_others(plan: Plan, out: Path) -> None:
    before = About.read(out)
    if before is not None and (name := before.data.get("name")) != plan.table.name:
        logger.warning(
            "%s has a comparison of %s; its records stay, but its model and report are replaced by those of "
            "%s. Choose another folder to keep both.",
            out,
            name,
            plan.table.name,
        )


def _warn_of_cuts(plan: Plan, longest: int) -> None:
    if longest > plan.run.max_length:
        cut = "%s: texts are cut to %d tokens; the longest has %d."
        if plan.table.task == TAGGING:
            cut = "%s: of longer sentences training reads the first %d tokens alone; the longest has %d."
        logger.warning(cut, plan.table.name, plan.run.max_length, longest)


def _save_best(plan: Plan, method: str, models: Path, folder: Path) -> None:
    """Save the method's model in `folder`: as compared, or trained again if an earlier run deleted it."""
    training = saved_training(plan, method)
    key, note = plan.key(training), folder / "record.json"
    if not (note.is_file() and [saved.key for saved in record.read(note)] == [key]):
        if (models / key).is_dir():
            fitted = load(models / key)
        else:
            with one_thread():
                fitted = fit_model(plan, training, plan.vocabulary(*plan.vocabulary_key(training)))
        fitted.save(folder)
    shutil.rmtree(models, ignore_errors=True)


def _labelled(data: Data, **columns: Any) -> Table:
    if not isinstance(data, str | PathLike | Table):
        raise InputError(f"compare was given a {type(data).__name__}; give the name of a file, or a Table.")
    if not isinstance(data, Table):
        return read(data, **columns)
    if columns["task"] not in (CLASSIFICATION, data.task):
        raise InputError(
            f"{data.name} was read for {data.task}, and task is {columns['task']!r}: read it for that task."
        )
    return data


def _check_splits(plan: Plan) -> None:
    """Draw every split before anything trains, so that a class with too few rows raises early. Log labels
    that a model's rows lack.
    """
    lacking = set[str]()
    for seed in plan.seeds:
        for shots in plan.shots:
            try:
                table, test = plan.rows(shots, seed)
                if plan.run.validation:
                    table.split(holdout=plan.run.held_out(len(table)), seed=seed)
                target_of(table)
                if plan.test is None:
                    lacking |= test.label_names - table.label_names
            except InputError as error:
                if plan.test is not None:
                    raise
                raise InputError(
                    f"after {plan.held_out:.0%} of the rows are held out for the test, {error}"
                ) from error
    if lacking:
        logger.warning(
            "%d labels are so rare that the training rows of some seeds lack them (%s%s); there they count "
            "as missed.",
            *(len(lacking), ", ".join(map(repr, sorted(lacking)[:3])), " ..." * (len(lacking) > 3)),
        )
