"""The study of real proteins: what is read from a file, which chains are kept, and what the arms measure."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
from torch import Generator, Tensor

from vnait_lab.studies import proteins as study
from vnait_lab.studies.parts import proteins as reading
from vnait_lab.studies.parts.proteins import LETTERS, Chain, chains, distinct, placed
from vnait_lab.studies.proteins import ANOTHER, MODELS, RULES, STUDY, Scorer, folds, frequencies, measured
from vnait_lab.study import Budget, Findings

BUDGET, SHORT = Budget(steps=80, samples=24), Budget(steps=20, samples=12)
THREE = "ALACYSASPGLUPHEGLYHISILELYSLEUMETASNPROGLNARGSERTHRVALTRPTYR"
NAMES = {letter: THREE[3 * place : 3 * place + 3] for place, letter in enumerate(LETTERS)}


def letters(count: int, seed: int) -> str:
    drawn = torch.randint(len(LETTERS), (count,), generator=Generator().manual_seed(seed))
    return "".join(LETTERS[place] for place in drawn.tolist())


def hairpin(count: int) -> list[tuple[float, float]]:
    """Two strands 3.8 angstrom from residue to residue and 5 apart, joined by a turn."""
    half = count // 2
    return [(3.8 * min(place, count - 1 - place), 0.0 if place < half else 5.0) for place in range(count)]


def atoms(text: str, numbers: list[int], carbons: list[tuple[float, float]]) -> Iterator[str]:
    """Lines of a .pdb file, one alpha carbon per residue."""
    for serial, (letter, number, (x, y)) in enumerate(zip(text, numbers, carbons, strict=True), 1):
        kind, name = ("HETATM", "MSE") if letter == "M" else ("ATOM", NAMES[letter])
        place = f"{x:8.3f}{y:8.3f}{0:8.3f}  1.00  0.00           C"
        yield f"{kind:6}{serial:5}  CA  {name} A{number:4}    {place}"


def write(
    path: Path, text: str, numbers: list[int] | None = None, shift: dict[int, float] | None = None
) -> None:
    carbons = hairpin(len(text))
    for place, by in (shift or {}).items():
        carbons[place:] = [(x, y + by) for x, y in carbons[place:]]
    lines = [*atoms(text, numbers or list(range(1, len(text) + 1)), carbons), "TER", "END"]
    path.write_text("\n".join(lines) + "\n", encoding="ascii")


def test_a_chain_is_read_from_a_file(tmp_path: Path) -> None:
    text = "M" + letters(79, 0)
    numbers = [*range(1, 11), *range(15, 35), *range(39, 89)]  # 4 numbers are skipped, twice
    write(tmp_path / "one.pdb", text, numbers, shift={30: 90.0})  # and once residues are missing
    (chain,) = reading.of_file(tmp_path / "one.pdb")
    assert (chain.source, chain.text) == ("one A", text)
    assert chain.places.tolist() == [*range(30), *range(34, 84)]
    assert chain.contacts[0, 2] and not chain.contacts[0, 3]  # 7.6 and 11.4 angstrom
    assert not chain.contacts[29, 30:].any()


def test_far_contacts_of_a_hairpin(tmp_path: Path) -> None:
    write(tmp_path / "one.pdb", letters(80, 0))
    (chain,) = reading.of_file(tmp_path / "one.pdb")
    pairs = [
        (i, j)
        for i in range(80)
        for j in range(i + 24, 80)
        if abs(min(i, 79 - i) - min(j, 79 - j)) <= 1  # 5 and 6.3 angstrom
    ]
    assert (chain.far & chain.contacts).nonzero().tolist() == [list(pair) for pair in pairs]


def test_of_homologs_one_is_kept(tmp_path: Path) -> None:
    text, other = letters(100, 0), letters(100, 1)
    mutated = "".join(
        b if place % 3 == 0 else a for place, (a, b) in enumerate(zip(text, letters(100, 2), strict=True))
    )
    for name, own in (("a", text), ("b", text), ("c", mutated[5:]), ("d", other), ("e", text[:50])):
        write(tmp_path / f"{name}.pdb", own)
    found = chains(tmp_path)
    assert len(found) == 2 and distinct([*found, *found]) == found
    assert sum(chain.text == other for chain in found) == 1
    assert [chain.text for chain in chains(tmp_path)] == [chain.text for chain in found]


def test_a_chain_without_far_contacts_is_left_out(tmp_path: Path) -> None:
    text = letters(80, 0)
    carbons = [(3.8 * place, 0.0) for place in range(80)]
    lines = atoms(text, list(range(1, 81)), carbons)
    (tmp_path / "line.pdb").write_text("\n".join([*lines, "END"]) + "\n", encoding="ascii")
    assert [*reading.of_file(tmp_path / "line.pdb")] and not chains(tmp_path)


def test_numbers_skipped_between_neighbours_are_no_gap() -> None:
    carbons = torch.tensor([[0.0, 0, 0], [3.8, 0, 0], [7.6, 0, 0], [30.0, 0, 0], [60.0, 0, 0]])
    assert placed("", [1, 9, 10, 14, 13], [0] * 5, carbons).places.tolist() == [0, 1, 2, 6, 7]


def planted(count: int, seed: int) -> Chain:
    """A chain whose far contacts are all pairs of cysteines."""
    drawn = torch.randint(len(LETTERS), (count,), generator=Generator().manual_seed(seed))
    drawn[torch.randperm(count, generator=Generator().manual_seed(seed))[: count // 6]] = 1
    places = torch.arange(count)
    both = (drawn == 1)[:, None] & (drawn == 1)
    near = (places[:, None] - places).abs() < 3
    return Chain(f"{'6zu5' if seed % 2 else 'one'} {seed}", drawn, places, both | near)


@pytest.fixture
def generated(monkeypatch: pytest.MonkeyPatch) -> list[Chain]:
    found = [planted(70 + 2 * place, place) for place in range(24)]
    monkeypatch.setattr(study, "proteins", lambda: found)
    monkeypatch.setattr(study, "FOLDS", 2)  # for speed
    monkeypatch.setattr(study, "BATCH", 4)
    return found


def test_every_protein_is_tested_once_but_those_of_development() -> None:
    development, tested = folds(127, Generator().manual_seed(0))
    assert len(development) == 22 and len(tested) == 5
    assert sorted([*development, *torch.cat(tested).tolist()]) == list(range(127))


def test_no_test_protein_is_trained_on(generated: list[Chain], monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[tuple[set[int], set[int]]] = []

    def scored(
        arm: str, seed: int, train: list[int], test: list[int], budget: Budget
    ) -> list[dict[str, float]]:
        seen.append(({*train}, {*test}))
        return [{"place": float(place)} for place in test]

    monkeypatch.setattr(study, "scored", scored)
    found = study.run("none", 0, BUDGET)
    assert all(not train & test and train | test == {*range(24)} for train, test in seen)
    assert found["place"] == [place for place in range(24) if place % 6]  # in order, whatever the folds


@pytest.mark.long
def test_controls_fail_where_letters_decide(generated: list[Chain]) -> None:
    """Of planted contacts content finds all; shuffled letters and another's map find none."""
    found = Findings(
        {(arm, 0): study.run(arm, 0, BUDGET) for arm in ("none", "shuffled", "map", ANOTHER, "counted")}
    )
    area = {arm: float(study.over(found, arm, "area").mean()) for arm in found.variants}
    assert area["none"] > 0.9 and area["shuffled"] < 0.6
    by_letters, _ = STUDY.controls
    assert by_letters.fails(found)
    assert not by_letters.fails(found.replaced("none", "shuffled"))


@pytest.mark.long
def test_another_map_helps_no_more_than_chance(
    generated: list[Chain], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where letters decide nothing, a chain's own map is what finds contacts."""
    other = [planted(len(chain.letters), 100 + place).letters for place, chain in enumerate(generated)]
    blind = [chain._replace(letters=own) for chain, own in zip(generated, other, strict=True)]
    monkeypatch.setattr(study, "proteins", lambda: blind)
    found = Findings({(arm, 0): study.run(arm, 0, BUDGET) for arm in ("none", "map", ANOTHER)})
    _, of_another = STUDY.controls
    assert of_another.fails(found) and not of_another.fails(found.replaced("map", ANOTHER))


def test_maps_have_their_shares(generated: list[Chain]) -> None:
    chain = planted(300, 5)
    own = reading.noisy(chain.contacts, study.KEPT, study.FALSE, Generator().manual_seed(0))
    assert torch.equal(own, own.T)
    assert own[chain.far & chain.contacts].mean().item() == pytest.approx(0.5, abs=0.05)
    assert own[chain.far & ~chain.contacts].mean().item() == pytest.approx(0.01, abs=0.003)
    maps = study.known("map", generated, Generator().manual_seed(0))
    others = study.known(ANOTHER, generated, Generator().manual_seed(0))
    assert torch.equal(others[3], maps[4][:76, :76])  # the fixture's chains grow by 2 residues each
    assert torch.equal(others[23][:114, :114], maps[22]) and not others[23][114:].any()
    assert not any(one.any() for one in study.known("none", generated, Generator().manual_seed(0)))


def test_measures_by_hand() -> None:
    chain = planted(80, 0)
    truth = chain.contacts.float()
    assert measured(20 * truth, chain)["area"] == measured(20 * truth, chain)["precision"] == 1
    assert measured(20 * truth, chain)["first"] == 1 and measured(-truth, chain)["first"] == 0
    even, mass = measured(torch.zeros(80, 80), chain), 0.0
    for row in range(80):
        keys = [key for key in range(80) if abs(key - row) >= 6]
        far = [key for key in keys if abs(key - row) >= 24 and chain.contacts[row, key]]
        mass += len(far) / len(keys) / 80
    assert even["mass"] == pytest.approx(mass, abs=1e-5) and even["area"] == 0.5
    assert even["chance"] == pytest.approx(float(chain.contacts[chain.far].double().mean()))


def test_counts_by_hand() -> None:
    chain = planted(80, 0)
    pairs = [(i, j) for i in range(80) for j in range(i + 24, min(i + 32, 80))]
    share = sum(bool(chain.contacts[pair]) for pair in pairs) / len(pairs)
    assert frequencies([chain])[study.RANGES == 24].item() == pytest.approx(share)
    scores = study.ruled("counted", chain, chain.contacts.float(), frequencies([chain]))
    assert scores[3, 30].item() == scores[31, 4].item() == pytest.approx(share)


def test_hydrophobic_residues_score_higher() -> None:
    chain = Chain(
        "",
        torch.tensor([LETTERS.index(letter) for letter in 40 * "I" + 40 * "R"]),
        torch.arange(80),
        torch.eye(80).bool(),
    )
    scores = study.ruled("water", chain, torch.zeros(80, 80), torch.zeros(len(study.RANGES)))
    assert scores[0, 20] == 1 and scores[60, 70] == 0 and scores[20, 60] == 0


@pytest.mark.parametrize("arm", MODELS)
def test_scores_have_no_direction_and_know_places_by_their_bias_alone(arm: str) -> None:
    torch.manual_seed(0)
    model, chain = Scorer(arm), planted(80, 0)
    with torch.no_grad():
        for weight in model.parameters():
            weight.copy_(torch.randn(weight.shape))
        gap = chain._replace(places=chain.places + 9 * (chain.places > 40))
        one, other = (model(own, torch.zeros(80, 80)) for own in (chain, gap))
    assert torch.allclose(one, one.T, rtol=1e-4, atol=1e-3)
    assert torch.equal(one, other) == (arm in ("none", "map", ANOTHER, "shuffled"))


@pytest.mark.parametrize("arm", [*MODELS, *RULES])
def test_every_arm_runs(arm: str, generated: list[Chain]) -> None:
    found = study.run(arm, 0, SHORT)
    assert len(found["precision"]) == 10 and all(value > 0 for value in found["precision"])


def test_verdicts_and_the_figure(generated: list[Chain]) -> None:
    of_content, counted = (study.run(arm, 0, SHORT) for arm in ("none", "counted"))
    found = Findings({**{(arm, 0): of_content for arm in STUDY.variants}, ("counted", 0): counted})
    assert all(claim.judge(found).summary for claim in STUDY.claims)
    assert len(STUDY.draw(found).axes) == 3


def moved(found: Findings, arm: str, by: float, metric: str = "precision") -> Findings:
    """The findings of `none` with an arm that is `by` above them."""
    cells = {cell: metrics for cell, metrics in found.runs.items() if cell[0] != arm}
    own: Tensor = torch.tensor(found.values("none", metric)[0]) + by
    return Findings({**cells, (arm, 0): {**found.runs["none", 0], metric: own.tolist()}})


def test_rules_of_the_verdicts(generated: list[Chain]) -> None:
    run = study.run("none", 0, SHORT)
    counted = study.run("counted", 0, SHORT)
    found = Findings({**{(arm, 0): run for arm in STUDY.variants}, ("counted", 0): counted})
    assert study.judge_table.judge(found).word == "refuted"
    assert study.judge_table.judge(moved(found, "table", 0.006)).word == "confirmed"
    assert study.judge_near.judge(found).word == "confirmed"
    assert study.judge_near.judge(moved(found, "slope", -0.006)).word == "refuted"
    faint = moved(found, "slope", 0.0)
    faint.runs["slope", 0]["mass"] = [0.1 * mass for mass in run["mass"]]
    assert study.judge_near.judge(faint).word == "conditional"
    assert study.judge_map.judge(found).word == "refuted"
    assert study.judge_map.judge(moved(found, "map", 0.06)).word == "conditional"
    assert study.judge_map.judge(moved(moved(found, "map", 0.06), ANOTHER, 0.06)).word == "confirmed"
    assert study.judge_elastic.judge(found).word == "undecided"
    assert study.judge_elastic.judge(moved(found, "elastic", 0.001)).word == "confirmed"
