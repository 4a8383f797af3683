"""Advice: each rule on invented records, and that test scores choose nothing."""

import re
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from helpers import record
from vnait.results.advice import advice
from vnait.results.results import Results
from vnait.results.scores import right_rows
from vnait.shared.statistics import interval, seeds_needed

BASELINE = "averaged"
SIMPLE = (BASELINE, "tfidf")


def made(
    scores: dict[str, list[float]],
    *,
    valid: dict[str, list[float]] | None = None,
    shots="all",
    rows=100,
    ms=1.0,
):
    """Records of methods by seed; validation scores are the test scores unless given."""
    return [
        record(
            method,
            seed,
            run={} if method in SIMPLE else {"steps": 2},
            data={"shots": shots, "rows": rows},
            metrics={
                "accuracy": score,
                "validation_accuracy": (valid or scores)[method][seed],
                "ms_per_text": ms,
            },
            parameters={"none": 10, BASELINE: 99}.get(method, 20),
            seconds=1.5,
        )
        for method, values in scores.items()
        for seed, score in enumerate(values)
    ]


def results(records, shots=("all",)) -> Results:
    methods = list(dict.fromkeys(record.method for record in records))
    return Results(records=records, methods=methods, shots=shots, reference=methods[-1])


def about(words: str, sentences: list[str]) -> str:
    """The one sentence that has these words."""
    (sentence,) = [sentence for sentence in sentences if words in sentence]
    return sentence


FLAT = [0.70, 0.71, 0.69, 0.70]
HIGH = [0.90, 0.92, 0.89, 0.91]


def test_a_clear_lead_wins_and_order_matters():
    found = results(made({BASELINE: FLAT, "none": FLAT, "vnait": HIGH}))
    assert found.best == "vnait"
    first, simple, second = advice(found, chance_level=0.5)
    chance = " (always answering the most frequent class: 50.0 %)"
    score = f"its accuracy on the test rows is 90.5 % [88.4, 92.6]{chance}"
    assert simple.startswith(
        "On the test rows vnait minus averaged, the best simple model, is +20.5 points ["
    )
    assert first == f"Use vnait: {score}; it trains in 1.5 s and takes 1 ms per text."
    difference = "vnait minus none, the method without positions, is +20.5 points ["
    assert second.startswith(f"Word order matters on this file: {difference}")


def test_a_model_that_is_worse_on_the_test_rows_is_advised_with_that_said():
    worse = results(made({BASELINE: HIGH, "vnait": FLAT}, valid={BASELINE: FLAT, "vnait": HIGH}))
    assert worse.best == "vnait"
    sentence = about("not clearly ahead", advice(worse, chance_level=0.5))
    assert re.search(
        rf"ahead of {BASELINE}, the best simple model: the difference is -20\.5 points", sentence
    )


def test_equals_give_way_to_the_cheapest_a_baseline_first():
    near = [0.71, 0.70, 0.70, 0.70]
    assert results(made({BASELINE: FLAT, "none": near, "vnait": near})).best == BASELINE
    assert results(made({"none": FLAT, "vnait": near})).best == "none"


def test_of_two_simple_models_the_better_one_is_advised_whatever_its_size():
    scores = {"tfidf": [0.71, 0.71, 0.70], "one-hot": [0.70, 0.70, 0.70], "vnait": [0.71, 0.70, 0.71]}
    assert results(made(scores)).best == "tfidf"


def test_two_seeds_with_a_better_transformer_leave_open_whether_a_simple_model_is_enough():
    scores = {"tfidf": [0.5, 0.6], "vnait": [0.6, 0.7]}
    sentences = advice(results(made(scores, valid={"tfidf": [0.7, 0.7], "vnait": [0.7, 0.7]})))
    assert "open: on the test rows vnait" in about("Whether a Transformer", sentences)
    assert not any("enough" in sentence for sentence in sentences)


def test_a_wide_interval_is_no_proof_that_a_simple_model_is_enough():
    scores = {"tfidf": [0.5, 0.9, 0.7], "vnait": [0.9, 0.6, 0.7]}
    sentences = advice(results(made(scores, valid={"tfidf": [0.7] * 3, "vnait": [0.7] * 3})))
    assert about("Whether a Transformer", sentences).endswith("].")
    assert not any("enough" in sentence for sentence in sentences)


def test_of_equal_simple_models_none_is_called_the_cheapest():
    equal = {"tfidf": [0.71] * 3, "averaged": [0.71] * 3, "vnait": [0.71] * 3}
    records = [replace(each, data={**each.data, "validation_rows": 50}) for each in made(equal)]
    sentence = about("It was chosen", advice(results(records)))
    assert "of these it is the simple model with the best score" in sentence
    without = [each for each in records if each.method != "averaged"]
    assert "of these it is the cheapest" in about("It was chosen", advice(results(without)))


def test_splits_of_one_file_are_named_and_a_score_needs_validation_rows():
    records = [
        replace(each, data={**each.data, "test_fingerprint": str(each.seed)})
        for each in made({"none": FLAT, "vnait": HIGH})
    ]
    assert "draws its test rows from the same file" in results(records).of_rows
    tags = [
        replace(each, metrics={"entity_f1": 0.5, "token_accuracy": 0.9, "validation_token_accuracy": 0.9})
        for each in records
    ]
    assert results(tags).metric.name == "token_accuracy" and results(tags).best is not None


def test_a_transformer_that_the_test_rows_prefer_is_named_beside_the_advised_simple_model():
    scores, valid = {"tfidf": FLAT, "none": FLAT, "vnait": HIGH}, {"tfidf": [0.8] * 4, "none": [0.7] * 4}
    sentences = advice(results(made(scores, valid=valid | {"vnait": [0.8] * 4})))
    assert sentences[0].startswith("Use tfidf: ")
    sentence = about("the best Transformer", sentences)
    assert sentence.startswith("On the test rows vnait, ") and "minus tfidf is +20.5 points [" in sentence
    assert sentence.endswith("]: take it if the score counts more than the cost.")
    ahead = results(made({"tfidf": FLAT, "none": HIGH, "vnait": FLAT}, valid=valid | {"vnait": [0.8] * 4}))
    assert "On the test rows none is better by 20.5 points [" in advice(ahead)[0]
    assert advice(ahead)[0].endswith("]; the choice is by the validation rows alone.")


def test_records_in_another_order_give_the_same_advice():
    """As when a report reads them from a file; methods that tie on the validation rows included."""
    tied = [0.6, 0.62, 0.61]
    valid = dict.fromkeys(("none", "rope", "alibi", "tfidf", BASELINE), tied)
    scores = {name: [score + 0.01 * place for score in tied] for place, name in enumerate(valid)}
    records = made(scores, valid=valid)
    assert advice(results(records)) == advice(results(records[::-1]))


def on_one_test_set(shares: dict[str, float], rows: int):
    """Records of five seeds that answer the same share of the same rows right, each model its own rows."""
    draw = np.random.default_rng(0)
    right = {name: draw.permutation(rows) < share * rows for name, share in shares.items()}
    data = {"shots": "all", "rows": 100, "test_rows": rows, "test_fingerprint": "f"}
    return [
        replace(of_seed, data=data, metrics={**of_seed.metrics, **right_rows(right[name], np.ones(rows))})
        for name, share in shares.items()
        for of_seed in made({name: [share] * 5})
    ]


def test_on_one_test_set_the_rows_decide_too():
    scores = {"none": 0.7, "vnait": 0.72}
    few, many = (results(on_one_test_set(scores, rows)) for rows in (200, 20_000))
    assert "can't be told apart" in few.sentences()[0] and "vnait is ahead of none" in many.sentences()[0]
    (row,) = few.paired
    assert row["ci_low"] < row["difference"] < row["ci_high"]
    assert "include the choice of both" in few.of_rows


def test_answers_that_are_all_right_do_not_make_an_accuracy_exact():
    perfect = results(on_one_test_set({"none": 0.7, "vnait": 1.0}, 200))
    (row,) = [row for row in perfect.rows if row["method"] == "vnait"]
    assert row["mean"] == 1 and row["ci_low"] is None and row["ci_high"] is None


def test_few_noisy_seeds_do_not_give_up_a_lead_of_more_than_a_point():
    noisy = {"none": [0.5, 0.9, 0.6], "vnait": [0.95, 0.6, 0.75]}
    assert results(made(noisy)).best == "vnait"


@settings(max_examples=25, deadline=None)
@given(st.permutations(range(4)), st.floats(0, 1))
def test_test_scores_choose_nothing(order, shift):
    valid = {BASELINE: FLAT, "none": FLAT, "vnait": HIGH}
    scores = {name: [min(values[row] * shift, 1.0) for row in order] for name, values in valid.items()}
    assert results(made(scores, valid=valid)).best == "vnait"


def test_order_that_makes_no_difference_and_order_that_is_open():
    near = [0.703, 0.712, 0.694, 0.699]
    flat = about("Word order", advice(results(made({BASELINE: HIGH, "none": FLAT, "vnait": near}))))
    assert flat.startswith("Word order makes no measurable difference on this file: vnait minus none")
    wide = [0.75, 0.62, 0.81, 0.66]
    undecided = about("word order", advice(results(made({BASELINE: HIGH, "none": FLAT, "vnait": wide}))))
    assert undecided.startswith("Whether word order matters on this file is open")
    assert "seeds would be needed" in undecided
    worse = about("Word order", advice(results(made({BASELINE: HIGH, "none": HIGH, "vnait": FLAT}))))
    assert worse.startswith("Word order hurts on this file")
    little = [value + gain for value, gain in zip(FLAT, (0.004, 0.003, 0.004, 0.003), strict=True)]
    certain = about("Word order", advice(results(made({BASELINE: HIGH, "none": FLAT, "vnait": little}))))
    assert certain.startswith("Word order makes little difference on this file: vnait minus none")


def test_the_effect_of_order_is_given_without_the_linear_parts_too():
    """One-hot words beside `vnait` know order, and `none` never has them."""
    records = made({BASELINE: FLAT, "none": FLAT, "vnait": HIGH})
    for method, alone in (("none", 0.4), ("vnait", 0.5)):
        for one in records:
            if one.method == method:
                one.metrics["accuracy_alone"] = alone + 0.01 * one.seed * (method == "vnait")
    sentence = about("Word order", advice(results(records)))
    assert re.search(
        r"is \+20\.5 points \[.*\], and \+11\.5 points \[.*\] without their linear parts\.$", sentence
    )
    for one in records:
        one.metrics.pop("accuracy_alone", None)
    assert "linear" not in about("Word order", advice(results(records)))


def test_without_none_or_with_methods_of_a_base_alone_order_is_left_out():
    for scores in ({BASELINE: FLAT, "vnait": HIGH}, {BASELINE: FLAT, "none": FLAT, "base:own": HIGH}):
        assert not any("ord order" in sentence for sentence in advice(results(made(scores))))


def test_nothing_that_beats_guessing_is_reported():
    (first, *_) = advice(results(made({BASELINE: FLAT, "none": FLAT, "vnait": FLAT})), chance_level=0.7)
    assert first.startswith(
        "averaged, the best on the validation rows, is not clearly better than always answering the "
        "most frequent class (70.0 %): its accuracy on the test rows is"
    )


@pytest.mark.parametrize(
    ("more", "verdict"),
    [
        (HIGH, "More labels would help"),
        (FLAT, "More labels would hardly help"),
        ([0.8, 0.6, 0.85, 0.5], "Whether more"),
    ],
)
def test_what_more_labels_would_bring(more, verdict):
    records = [*made({"none": FLAT}, shots=16, rows=32), *made({"none": more}, shots=64, rows=128)]
    (_, last) = advice(results(records, shots=(16, 64)))
    assert (
        last.startswith(verdict)
        and "from 16 to 64 labels per class, each doubling changed the accuracy of none by" in last
    )


def test_seeds_needed_is_where_the_interval_leaves_zero_out():
    rng = np.random.default_rng(0)
    sample = rng.normal(0.02, 0.05, size=6)
    sample = (sample - sample.mean()) / sample.std(ddof=1) * 0.05 + 0.02
    needed = seeds_needed(sample.tolist())
    assert needed is not None and needed > 6
    for count, sign in ((needed, 1), (needed - 1, 0)):
        values = rng.normal(size=count)
        values = (values - values.mean()) / values.std(ddof=1) * 0.05 + 0.02
        assert interval(values.tolist()).sign == sign
    assert seeds_needed([0.1]) is None and seeds_needed([0.01, -0.01]) is None
    near = {BASELINE: FLAT, "none": [0.70, 0.73, 0.68, 0.70], "rope": FLAT, "vnait": FLAT}
    valid = near | {"vnait": HIGH}
    (first, *_) = advice(results(made(near, valid=valid)))
    assert "Over 4 seeds it can't be told apart from none; about" in first


def test_records_without_validation_or_speed():
    records = made({"none": FLAT, "vnait": HIGH})
    for one in records:
        del one.metrics["validation_accuracy"]
    assert results(records).best is None and advice(results(records)) == []
    records = made({"none": FLAT, "vnait": HIGH})
    for one in records:
        del one.metrics["ms_per_text"]
    assert "it trains in 1.5 s." in advice(results(records))[0]


def test_a_baseline_above_chance_is_named_if_the_chosen_method_is_not():
    wide = {BASELINE: FLAT, "none": [0.9, 0.5, 0.95, 0.45]}
    valid = {BASELINE: [0.6] * 4, "none": [0.9] * 4}
    (first, *_) = advice(results(made(wide, valid=valid)), chance_level=0.55)
    assert first.startswith(
        "none, the best on the validation rows, is not clearly better than always answering"
    )
    assert first.endswith("averaged is, with 70.0 % [68.7, 71.3]: compare more seeds or labels.")


# What is advised: validation rows per seed x how far the Transformer is ahead.
GAPS = (-0.2, -0.05, -0.01, 0.0, 0.01, 0.02, 0.05, 0.1, 0.3)


@pytest.mark.parametrize("rows", [3, 10, 50, 250, 2500])
@pytest.mark.parametrize("gap", GAPS)
def test_a_transformer_is_advised_where_the_validation_rows_prove_it(rows, gap):
    scores = {"tfidf": [0.6] * 4, "none": [0.6 + gap / 2] * 4, "vnait": [0.6 + gap] * 4}
    records = made(scores)
    for one in records:
        one.data["validation_rows"] = rows
    found = results(records)
    total, top = 4 * rows, max(0.6, 0.6 + gap)
    share = (top * total + 1) / (total + 2)
    proved = gap > (share * (1 - share) / total) ** 0.5
    assert (found.best == "tfidf") != proved
    sentences = advice(found, chance_level=0.5)
    assert sentences[0].startswith(f"Use {found.best}: ")
    chosen = about("It was chosen on", sentences)
    assert chosen.startswith(f"It was chosen on {total:,} validation rows, 4 seeds together, which")
    assert ("can't separate" in chosen) == (len(found.tied) > 1)
    assert any("A simple model is enough" in sentence for sentence in sentences) <= (not proved)


def test_without_the_number_of_rows_the_spread_over_seeds_decides():
    records = made({"tfidf": FLAT, "vnait": [value + 0.02 for value in FLAT]})
    assert results(records).best == "vnait" and results(records).validation_rows == 0
