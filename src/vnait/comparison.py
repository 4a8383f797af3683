"""Methods x shots x seeds on identical splits: paired differences with intervals, and no ranking inside the noise."""

from __future__ import annotations

import logging
import os
import shutil
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from vnait import about as abouts
from vnait import card as cards
from vnait import record as records
from vnait import text as texts
from vnait import train
from vnait.about import About, call
from vnait.advice import advice
from vnait.baselines import FROZEN, fit_baseline, pooled
from vnait.bases import OWN, PREFIX, Base
from vnait.errors import InputError
from vnait.files import whole_file
from vnait.lexicon import Lexicon
from vnait.linear import LinearClassifier
from vnait.methods import METHODS, Recipe
from vnait.plan import Cell, Plan, labels_of
from vnait.predict import Fitted, check_replaceable, load
from vnait.record import Record
from vnait.results import ALL, Results, Shots, by_size
from vnait.text import Table
from vnait.threads import one_thread
from vnait.train import Run

logger = logging.getLogger("vnait")

DEFAULT_METHODS = ("none", "sinusoidal", "learned", "vnait-uniform", "vnait")
MODELS = ".models"  # where each method's model waits until one is chosen


@dataclass(frozen=True, kw_only=True)
class Comparison:
    """What came out. `rows`: a method at a number of shots; `paired`: its difference to the reference on the same seeds."""

    plan: Plan
    records: list[Record]
    reference: str
    path: Path
    results: Results = field(init=False, repr=False)

    def __post_init__(self) -> None:
        by_key = {record.key: record for record in self.records}
        results = Results(
            records=[by_key[self.plan.key(cell)] for cell in self.plan.cells()],
            methods=(*self.plan.baselines, *self.plan.methods),
            shots=self.plan.shots,
            reference=self.reference,
        )
        object.__setattr__(self, "results", results)

    @property
    def rows(self) -> list[dict[str, Any]]:
        """A row per method and number of shots: its mean accuracy with its interval, parameters, seconds."""
        return self.results.rows

    @property
    def paired(self) -> list[dict[str, Any]]:
        """A row per method and number of shots: its difference to the reference, with its interval."""
        return self.results.paired

    @property
    def table(self) -> Any:
        """`rows` as a pandas DataFrame."""
        import pandas as pd

        return pd.DataFrame(self.rows)

    @property
    def best(self) -> str:
        """The method that is advised and kept: `Results.best`, chosen on the validation rows."""
        best = self.results.best
        assert best is not None, "a plan that chooses holds validation rows out"
        return best

    def of(self, method: str, shots: Shots) -> list[Record]:
        """The records of a method at a number of shots, in the order of the seeds."""
        return self.results.of(method, shots)

    def sentences(self) -> list[str]:
        """What can be said, in words: who is ahead, who behind, and who can't be told apart from the reference."""
        return self.results.sentences()

    def advice(self) -> list[str]:
        """What to do, in one to three sentences."""
        return advice(self.results, most_frequent=self.plan.most_frequent())

    def report(self) -> Path:
        """Write report.html beside the records: the same page as `vnait report` makes of the folder."""
        from vnait import report

        return report.write(self.path.parent)

    def picture(self) -> Path:
        """Write accuracy.png beside the records: each method's mean accuracy with its interval."""
        from vnait import drawing
        from vnait.drawing import accuracy

        path = self.path.parent / "accuracy.png"
        drawing.save(accuracy.figure(self.results, self.plan.most_frequent()), path)
        return path


def compare(
    data: str | Table,
    *,
    methods: Sequence[str] = DEFAULT_METHODS,
    shots: Sequence[Shots] = (ALL,),
    seeds: int | Sequence[int] = 5,
    test: str | Table | None = None,
    out: str | Path = "runs/compare",
    text: str = "text",
    label: str = "label",
    vectors: str | None = None,
    tokenization: str = "words",
    base: str | None = None,
    run: Run | None = None,
    steps: int | None = None,
    reference: str | None = None,
    jobs: int | None = None,
    backend: str = "local",
    watch: Callable[[int, int, Record | None], None] = lambda done, total, record: None,
    command: str | None = None,
) -> Comparison:
    """Compare positional methods and two baselines on a labelled file; the advised model, of the most labels, is saved in `out`/model.

    shots       rows per class to learn from (validation rows included), or "all"
    seeds       how many, or which: each seed draws its own rows, splits, starting weights and batches, the same for every method
    test        a file of test rows; without one each seed holds out 30 % of the rows
    base        a pretrained encoder, a folder or a name on the hub: its frozen embeddings with logistic regression ("base:frozen") and
                the base fine-tuned with its own positions ("base:own") are compared too; "base:vnait" attaches vnait to it
    run, steps  the settings of every training, or its steps alone
    reference   the method that the others are paired with: "vnait" where it is compared, else the first
    jobs        cells at a time, one core each; None: all cores. The results do not depend on it
    command     what a report says was typed; None: this call

    Finished cells are kept in `out`/records.jsonl and are not run again. `out`/about.json is what `vnait report` needs besides.
    """
    command = command or call(compare, locals())
    plan = Plan(
        table=_labelled(data, text, label),
        test=None if test is None else _labelled(test, text, label),
        methods=_with_own(methods, base),
        shots=tuple(int(count) if isinstance(count, np.integer) else count for count in shots),
        seeds=tuple(range(seeds)) if isinstance(seeds, int | np.integer) else tuple(map(int, seeds)),
        run=_run(run, steps),
        vectors=vectors,
        tokenization=tokenization,
        base=base,
    )
    reference = reference or ("vnait" if "vnait" in plan.methods else plan.methods[0])
    if reference not in (*plan.methods, *plan.baselines):
        raise InputError(f"reference {reference!r} is not compared: take one of {', '.join(plan.methods)}.")
    repeated = _warned_of_repeats(plan)
    _check_splits(plan)
    out = Path(out)
    check_replaceable(out / "model")
    _warn_of_others(plan, out)
    facts = texts.summary(plan.table, plan.tokenization)
    if (longest := facts["tokens"]["quantiles"][-1]) > plan.run.max_length:
        logger.warning(
            "%s: texts are cut to %d tokens; the longest has %d.", plan.table.name, plan.run.max_length, longest
        )
    path = out / "records.jsonl"
    models = out / MODELS
    found = run_cells(plan, path, jobs=jobs or os.cpu_count() or 1, backend=backend, watch=watch, keep=models)
    comparison = Comparison(plan=plan, records=found, reference=reference, path=path)
    _save_best(plan, comparison.best, models, out / "model")
    about = _about(comparison, command, facts, repeated)
    about.write(out)
    _write_card(comparison, about, out / "model")
    return comparison


def _with_own(methods: Sequence[str], base: str | None) -> tuple[str, ...]:
    """Beside a pretrained base, its own positions fine-tuned are always compared."""
    own = f"{PREFIX}{OWN}"
    return (*methods, *((own,) if base is not None and own not in methods else ()))


def _run(run: Run | None, steps: int | None) -> Run:
    if run is not None and steps is not None:
        raise InputError(f"steps={steps} and a run with steps={run.steps} were both given; leave one of them out.")
    return run or Run(steps=steps)


def _warn_of_others(plan: Plan, out: Path) -> None:
    before = abouts.read(out)
    if before is not None and (name := before.data.get("name")) != plan.table.name:
        logger.warning(
            "%s holds a comparison of %s; its records stay, its model and report give way to those of %s. Another folder keeps both.",
            out,
            name,
            plan.table.name,
        )


def _write_card(comparison: Comparison, about: About, folder: Path) -> None:
    """Again for a model that is there already: other methods may have been compared since."""
    (record,) = records.read(folder / "record.json")
    with whole_file(folder / cards.NAME) as draft:
        draft.write_text(cards.card(record, about.data, comparison.results), encoding="utf-8")


def _about(comparison: Comparison, command: str, facts: dict[str, Any], repeated: int) -> About:
    plan = comparison.plan
    return About(
        command=command,
        reference=comparison.reference,
        runs=[record.key for record in comparison.results.records],
        data=facts,
        test=None if plan.test is None else texts.summary(plan.test, plan.tokenization),
        repeated=repeated,
        most_frequent=plan.most_frequent(),
    )


def run_cells(
    plan: Plan,
    path: str | Path,
    *,
    jobs: int = 1,
    backend: str = "local",
    watch: Callable[[int, int, Record | None], None] = lambda done, total, record: None,
    keep: Path | None = None,
) -> list[Record]:
    """The records of all cells of a plan; those that `path` holds are not run again.

    keep   a folder for the models of the first seed and the most labels, one of which a comparison keeps; None: models are not saved
    """
    cells = {plan.key(cell): cell for cell in plan.cells()}
    return records.resumed(path, cells, lambda left: _results(plan, left, jobs, backend, keep), watch)


def _results(plan: Plan, cells: list[Cell], jobs: int, backend: str, keep: Path | None) -> Iterator[Record]:
    """Records as they come in."""
    from joblib import Parallel, delayed

    if not cells:
        return iter(())
    workers = min(jobs, len(cells))
    parallel = {"n_jobs": workers, "backend": _backend(backend, workers), "max_nbytes": None}
    seeds = sorted({plan.lexicon_seed(cell.seed) for cell in cells})
    words = dict(zip(seeds, Parallel(**parallel)(delayed(_lexicon)(plan, seed) for seed in seeds), strict=True))
    for method in set(plan.methods) & set(
        METHODS
    ):  # one not made for vectors of this width stops the whole before anything trains
        words[seeds[0]].new_model(replace(plan.run, method=method), ["a", "b"], [1])
    tasks = (
        delayed(run_cell)(plan, cell, words[plan.lexicon_seed(cell.seed)], METHODS.get(cell.method), keep)
        for cell in cells
    )
    results: Iterator[Record] = Parallel(**parallel, return_as="generator_unordered")(tasks)
    return results


def _lexicon(plan: Plan, seed: int) -> Lexicon:
    with one_thread(), _hushed():
        return plan.lexicon(seed)


def run_cell(plan: Plan, cell: Cell, words: Lexicon, recipe: Recipe | None = None, keep: Path | None = None) -> Record:
    """Train and test one cell on one core, so that the result is the same however many run beside it.

    It may run in another process, which does not know a method of the user's own: hence its recipe.
    """
    if recipe is not None:
        METHODS[cell.method] = recipe
    with one_thread(), _hushed():
        fitted = _fitted(plan, cell, words)
        if keep is not None and cell == _kept(plan, cell.method):
            fitted.save(keep / plan.key(cell))
    assert fitted.record is not None
    return fitted.record


def _fitted(plan: Plan, cell: Cell, words: Lexicon) -> Fitted | LinearClassifier:
    table, test = plan.rows(cell.shots, cell.seed)
    fitted: Fitted | LinearClassifier
    if cell.method in plan.baselines:
        share = plan.run.validation if plan.chooses else 0
        settings: dict[str, Any] = {"tokenization": plan.tokenization, "seed": cell.seed, "validation": share}
        frozen = cell.method == FROZEN and plan.base is not None
        fitted = fit_baseline(cell.method, table, test, pooled(str(plan.base)) if frozen else words, **settings)
    else:
        run = plan.run_of(cell)
        fitted = train.fit(run, table, words if run.base is None else Base.load(run.base), test=test)
    assert fitted.record is not None
    data = {**fitted.record.data, "shots": cell.shots}
    return replace(fitted, record=replace(fitted.record, key=plan.key(cell), method=cell.method, data=data))


def _kept(plan: Plan, method: str) -> Cell:
    """The cell whose model a comparison keeps if its method is advised: the first seed's, with the most labels compared."""
    return Cell(method=method, shots=by_size(plan.shots)[-1], seed=plan.seeds[0])


def _save_best(plan: Plan, method: str, models: Path, folder: Path) -> None:
    """The advised method's model into `folder`: as it was compared, or trained again where an older run did not keep it."""
    cell = _kept(plan, method)
    key, note = plan.key(cell), folder / "record.json"
    if not (note.is_file() and [record.key for record in records.read(note)] == [key]):
        if (models / key).is_dir():
            fitted = load(models / key)
        else:
            with one_thread():
                fitted = _fitted(plan, cell, plan.lexicon(cell.seed))
        fitted.save(folder)
    shutil.rmtree(models, ignore_errors=True)


@contextmanager
def _hushed() -> Iterator[None]:
    """No notes: what there is to say of the texts would be said again by every cell."""
    level = logger.level
    logger.setLevel(logging.ERROR)
    try:
        yield
    finally:
        logger.setLevel(level)


def _backend(name: str, workers: int) -> str:
    if name == "local":
        return "loky" if workers > 1 else "sequential"
    if name != "ray":
        raise InputError(f"backend {name!r} is not known: take local or ray.")
    try:
        from ray.util.joblib import register_ray
    except ImportError as error:
        raise InputError("backend ray needs Ray: pip install 'vnait[ray]'.") from error
    register_ray()
    return "ray"


def _labelled(data: str | Table, text: str, label: str) -> Table:
    return data if isinstance(data, Table) else texts.read(data, text=text, label=label)


def _warned_of_repeats(plan: Plan) -> int:
    """How many test rows of the first seed also occur among the rows to learn from."""
    learn, test = plan.split(plan.seeds[0])
    if count := texts.repeated(learn.texts, test.texts):
        logger.warning(
            "%d of %d test rows also occur among the rows to learn from: scores will be too high. Remove the repeats.",
            count,
            len(test),
        )
    return count


def _check_splits(plan: Plan) -> None:
    """Draw every split before anything trains, so that a class with too few rows stops the whole at once."""
    for seed in plan.seeds:
        for shots in plan.shots:
            try:
                table, _ = plan.rows(shots, seed)
                if plan.run.validation:
                    texts.split(labels_of(table), holdout=plan.run.validation, seed=seed)
            except InputError as error:
                if plan.test is not None:
                    raise
                raise InputError(f"once {plan.held_out:.0%} of the rows are held out for the test, {error}") from error
