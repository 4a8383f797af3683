"""Parts of speech from few sentences: the control keeps every tag at its word, and what is concluded."""

import pytest

from helpers import record
from vnait.data import Table
from vnait.data.sentences import split_words
from vnait.results.record import Record
from vnait.train.baselines import OF_TAGS
from vnait_lab.page.texts import of_tagging
from vnait_lab.runs.tagging import FILES, METHODS_RUN, SHUFFLED, SIZES, plans, shuffled, verdict

NAME = "ud_english_ewt"


def records(lead: float, gain: float) -> list[Record]:
    """`vnait` has `lead` over the others, and `gain` over itself on shuffled sentences."""
    made = []
    for name, sizes in SIZES.items():
        for size in sizes:
            for seed in range(3):
                for method in (*OF_TAGS, *METHODS_RUN):
                    ahead = (lead if method == "vnait" else 0.0) + 0.001 * seed
                    for words, less in (("", 0.0), (SHUFFLED, gain)):
                        share = 0.7 + ahead - less + 0.0001 * seed * bool(words)
                        data = {"name": name + words, "shots": size}
                        metrics = {"token_accuracy": share}
                        made.append(record(method, seed, data=data, metrics=metrics))
    return made


@pytest.mark.parametrize(
    ("lead", "gain", "word"),
    [(0.02, 0.05, "confirmed"), (-0.02, 0.05, "refuted"), (0.0, 0.05, "undecided"), (0.02, 0.0, "undecided")],
)
def test_the_verdict_needs_a_lead_and_a_gain_from_order(lead, gain, word):
    found = records(lead, gain)
    assert verdict(found, NAME).word == word
    written = of_tagging(found)
    assert (
        len(written.claims) == 2
        and "| vnait, shuffled | " in written.text
        and "1,000 sentences" in written.text
    )


def test_the_control_keeps_each_tag_at_its_word(tmp_path):
    tags = dict(zip("abcdefgh", "ABCDEFGH", strict=True))
    texts = [" ".join("abcdefgh"), "c a"]
    labels = [" ".join(tags[word] for word in split_words(text)) for text in texts]
    table = Table(texts, labels, NAME, 0, "tagging")
    mixed = shuffled(table)
    assert mixed.name == NAME + SHUFFLED and mixed.texts[0] != texts[0]
    assert (
        sorted(split_words(mixed.texts[0])) == list("abcdefgh") and mixed.labels[0] == mixed.texts[0].upper()
    )
    for name, files in FILES.items():
        (tmp_path / name).mkdir()
        line = "1\ta\ta\tNOUN\tN\t_\t0\troot\t_\t_\n2\tb\tb\tVERB\tV\t_\t0\troot\t_\t_\n\n"
        for file in files:
            (tmp_path / name / file).write_text(line * 1000)
    made = plans(tmp_path, 2, quick=True)
    assert [plan.table.name for plan in made][:2] == [NAME, NAME + SHUFFLED]
    assert made[0].rows(100, 0)[0].task == "tagging" and len(made[0].rows(100, 0)[0]) == 100
    assert {plan.run.steps for plan in made} == {20} and made[0].baselines == tuple(OF_TAGS)
