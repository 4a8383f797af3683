"""Nine sets with few labels, as `vnait compare` runs them, in both situations, with its advice.

    VNAIT_DATA=DIR python -m vnait_lab.runs.nine_sets [--sets splice,trec] [--shots 16|all] [--seeds 10]
        [--unlabelled rest,none] [--methods none,vnait-uniform,vnait] [--out studies/records/nine_sets]

Every setting is the default of `vnait compare`: a fifth of the drawn rows is held out to stop and to choose,
and the model learns from all of them afterwards. "rest": the other texts of train.csv are there without their
labels, for words, vectors and frequencies. "none": the drawn rows are all there is.

Records are kept in OUT/SITUATION/SET, and finished ones do not run again. Printed are two tables per
situation, of scores and of `vnait` minus each other model, paired by draw; then what `vnait compare` advises.
"""

from collections.abc import Iterator, Sequence
from pathlib import Path

from vnait.comparison.compare import Comparison
from vnait.comparison.plan import NONE, REST
from vnait.comparison.trainings import run_plan
from vnait.results.results import ALL, Results, Shots
from vnait.shared.statistics import Interval, interval, paired
from vnait.train.run import Run
from vnait_lab import RECORDS
from vnait_lab.runs import data_folder, parser
from vnait_lab.suites.few_labels import SETS, plan_of
from vnait_lab.suites.suite import check

METHOD, METHODS = "vnait", ("none", "vnait-uniform", "vnait")
RUN = Run()
BySeed = dict[int, float]


def scores_of(results: Results, name: str) -> dict[str, BySeed]:
    """Model -> seed -> its score on the test rows, in the metric of the set."""
    scores: dict[str, BySeed] = {method: {} for method in results.methods}
    for record in results.records:
        scores[record.method][record.seed] = record.metrics[SETS[name].metric]
    return scores


def tables(by_set: dict[str, dict[str, BySeed]], models: Sequence[str]) -> Iterator[str]:
    """The scores in percent, and `METHOD` minus each other model in points."""
    yield f"| set | {' | '.join(models)} |"
    yield "|---" * (1 + len(models)) + "|"
    for name, scores in by_set.items():
        yield f"| {name} | {' | '.join(_points(list(scores[model].values())) for model in models)} |"
    others = [model for model in models if model != METHOD]
    yield f"\n| {METHOD} minus | {' | '.join(others)} |"
    yield "|---" * (1 + len(others)) + "|"
    for name, scores in by_set.items():
        minus = [_points(paired(scores[METHOD], scores[model]), sign="+") for model in others]
        yield f"| {name} | {' | '.join(minus)} |"


def _points(values: Sequence[float], sign: str = "") -> str:
    bounds: Interval = interval(values).times(100)
    return bounds.written("{:" + sign + ".1f}")


def _shots(text: str) -> Shots:
    return text if text == ALL else int(text)


def main(words: Sequence[str] | None = None) -> None:
    command = parser(
        __doc__, seeds=10, jobs=False, sets=tuple(SETS), unlabelled=(REST, NONE), methods=METHODS
    )
    command.add_argument("--shots", type=_shots, default=16)
    command.add_argument("--out", type=Path, default=RECORDS / "nine_sets")
    options = command.parse_args(words)
    data = data_folder(command)
    check("set", options.sets, SETS)
    if METHOD not in options.methods:
        command.error(f"--methods has no {METHOD}, which the others are compared with; add it.")
    for situation in options.unlabelled:
        by_set: dict[str, dict[str, BySeed]] = {}
        said: list[str] = []
        models: Sequence[str] = ()
        for name in options.sets:
            plan = plan_of(
                name,
                data,
                options.methods,
                (options.shots,),
                range(options.seeds),
                RUN,
                unlabelled=situation,
                chooses=True,
            )
            path = options.out / situation / name / "records.jsonl"
            records = run_plan(plan, path, jobs=1)
            comparison = Comparison(plan=plan, records=records, reference=METHOD, path=path)
            by_set[name], models = scores_of(comparison.results, name), comparison.results.methods
            said += [f"{name}: {' '.join(comparison.advice())}"]
        print(f"\n--unlabelled {situation}, --shots {options.shots}, {options.seeds} draws\n")
        print("\n".join([*tables(by_set, models), "", *said]), flush=True)


if __name__ == "__main__":
    main()
