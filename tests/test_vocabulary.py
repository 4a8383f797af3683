"""Words and vectors together: order of the ids, one scale, what is unknown."""

import logging

import numpy as np
import pytest

from vnait.data import coverage, tokenizer, vectors
from vnait.data import vocabulary as vocabulary
from vnait.shared.errors import InputError

TEXTS = ["red sun", "red moon rises"]


def file_of(path, words, scale=7.0):
    table = scale * np.random.default_rng(0).normal(size=(len(words), 6)).astype(np.float32)
    vectors.save(vectors.Vectors(list(words), table, "made"), path)
    return str(path), table


def test_a_number_of_words_without_a_file_is_refused():
    with pytest.raises(InputError, match="was given without the file"):
        vocabulary.vocabulary_of(TEXTS, vector_words=5)


def test_rows_stand_in_the_order_of_the_ids_centred_and_at_a_root_mean_square_of_one(tmp_path):
    path, table = file_of(tmp_path / "v.bin", ["moon", "sun", "red", "other"])
    # red twice, sun, moon and the unknown "rises" once each
    found = vocabulary.look_up(TEXTS, path, vector_words=0)
    mean = (2 * table[2] + table[1] + table[0] + table[:3].mean(0)) / 5
    scale = np.sqrt(np.mean(np.square(table[:3] - mean)))
    for word, row in zip(["moon", "sun", "red"], table, strict=False):
        got = found.table[found.tokenizer.convert_tokens_to_ids(word)]
        np.testing.assert_allclose(got, (row - mean) / scale, rtol=1e-4)
    assert not found.table[found.tokenizer.pad_token_id].any()
    np.testing.assert_allclose(found.frequency @ found.table, 0, atol=1e-6)
    assert "other" not in found.tokenizer.get_vocab() and found.dim == 6


def test_the_first_words_of_a_file_are_known_too_and_change_no_scale(tmp_path):
    words = ["moon", "star", "sun", "Star", "a comet", "red", "last"]
    path, table = file_of(tmp_path / "v.kv", words)
    found = vocabulary.look_up(TEXTS, path, vector_words=5)
    known = set(found.tokenizer.get_vocab())
    assert {"moon", "star", "sun", "red"} <= known, "those of the texts, and the first five"
    assert not known & {"last", "Star", "a comet"}, "no text is cut into a capital or a phrase"
    star, moon = (found.table[found.tokenizer.convert_tokens_to_ids(word)] for word in ("star", "moon"))
    of_texts = np.stack(
        [found.table[found.tokenizer.convert_tokens_to_ids(word)] for word in ("moon", "sun", "red")]
    )
    scale = np.linalg.norm(table[0] - table[1]) / np.linalg.norm(moon - star)
    np.testing.assert_allclose((star - moon) * scale, table[1] - table[0], rtol=1e-3)
    np.testing.assert_allclose(np.sqrt(np.mean(np.square(of_texts))), 1, rtol=1e-5)
    assert found.frequency[found.tokenizer.convert_tokens_to_ids("star")] == 0


def test_texts_of_one_word_have_a_vector_of_zeros(tmp_path):
    path, _ = file_of(tmp_path / "v.bin", ["red", "sun"])
    found = vocabulary.look_up(["red", "red"], path)
    assert (
        np.isfinite(found.table).all() and not found.table[found.tokenizer.convert_tokens_to_ids("red")].any()
    )


def test_many_unknown_words_are_a_warning(tmp_path, caplog):
    path, _ = file_of(tmp_path / "v.bin", ["red", "sun"])
    vocabulary.look_up(TEXTS, path)
    assert [record.levelno for record in caplog.records] == [logging.WARNING]
    assert "40 % of the tokens are unknown words" in caplog.text


def test_frequencies_are_shares_of_all_tokens(tmp_path):
    path, _ = file_of(tmp_path / "v.bin", ["red", "sun"])
    found = vocabulary.look_up(TEXTS, path)
    ids = [
        *found.tokenizer.convert_tokens_to_ids(["red", "sun"]),
        found.tokenizer.unk_token_id,
        found.tokenizer.pad_token_id,
    ]
    assert found.frequency[ids] == pytest.approx([2 / 5, 1 / 5, 2 / 5, 0])


def test_vectors_of_zeros_are_refused(tmp_path):
    path, _ = file_of(tmp_path / "v.bin", ["red", "sun"], scale=0.0)
    with pytest.raises(InputError, match="every vector of these words is zero"):
        vocabulary.look_up(TEXTS, path)


def test_fingerprints_separate_tokenizations_and_vectors(tmp_path):
    letters = ["a b", "b c a"]  # words and characters are the same tokens
    path, _ = file_of(tmp_path / "v.bin", ["a", "b", "c"])
    words = vocabulary.look_up(letters, path)
    assert words.fingerprint == vocabulary.look_up(letters, path).fingerprint
    assert words.fingerprint != vocabulary.look_up(letters, path, tokenization="characters").fingerprint
    turned, _ = file_of(tmp_path / "w.bin", ["a", "b", "c"], scale=-7.0)
    assert words.fingerprint != vocabulary.look_up(letters, turned).fingerprint


def test_coverage_of_training_rows_and_others(tmp_path):
    path, _ = file_of(tmp_path / "v.bin", ["Red", "sun", "noon"])
    learned = vocabulary.look_up(TEXTS, path)
    assert learned.covers() == {"training": {"words": 2 / 4, "tokens": 3 / 5}}
    assert learned.covers(["RED noon", "zebra zebra", ""])["test"] == {"words": 2 / 3, "tokens": 2 / 4}
    assert coverage.written(learned.covers(["red"])) == (
        "words with a vector: training rows 50.0 % (60.0 % of the tokens), test rows 100.0 % (100.0 % of the "
        "tokens)"
    )
    assert vocabulary.learn(["a b", "a b"]).covers(["a"]) == {}


def test_coverage_reads_texts_in_parts(monkeypatch):
    monkeypatch.setattr(coverage, "_PART", 2)
    texts = ["a b", "a", "c", "d"] * 3
    assert coverage.coverage_of(iter(texts), tokenizer(["a", "c"])) == {"words": 2 / 4, "tokens": 9 / 15}
