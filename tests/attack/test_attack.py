"""A few mutations of every file that is read, and a few faults; `make attack` tries many more."""

from __future__ import annotations

import faults
import mutations
import pytest

SHORT = {"table.csv", "table.jsonl", "table.parquet", "table.xlsx", "vectors v.bin", "vectors v.vec.gz"}
SHORT |= {"table.sheets.xlsx", "table.categories.parquet", "vectors v.txt.zip", "tags.conllu", "plugin.py"}
SHORT |= {"records.jsonl", "vnait/config.json", "vnait/tokenizer.json", "adapter/vnait.json", "baseline.json"}


@pytest.mark.filterwarnings("ignore")  # what a library warns of in a damaged file
def test_a_changed_file_is_read_or_refused_in_one_sentence() -> None:
    tallies = [
        mutations.attack(target, 30 if target.weight > 10 else 3, seed=1)
        for target in mutations.all_targets()
        if target.name in SHORT
    ]
    assert len(tallies) == len(SHORT)
    assert [failure for tally in tallies for failure in tally.failures] == []
    assert sum(tally.refused for tally in tallies) > 100 and sum(tally.read for tally in tallies) > 20


def test_a_mutation_is_the_same_for_the_same_seed_and_changes_something() -> None:
    content = b'{"text": "a dull film", "label": "bad"}\n' * 5
    for change in (mutations.of_bytes, mutations.of_json, mutations.of_parquet):
        made = [change(content, mutations.random.Random(seed)) for seed in range(50)]
        assert made == [change(content, mutations.random.Random(seed)) for seed in range(50)]
        assert sum(one != content for one in made) > 45 and len(set(made)) > 40


@pytest.mark.long
@pytest.mark.parametrize("job", faults.JOBS)
@pytest.mark.parametrize("fault", faults.FAULTS)
def test_a_fault_at_a_named_point_loses_nothing(job: str, fault: str) -> None:
    for point in faults.JOBS[job].points:
        found = faults.strike_everywhere(job, point, fault, 1)
        assert found.injected and (found.lost, found.wrong) == (0, 0), point
