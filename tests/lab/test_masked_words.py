"""Why the default was behind on masked tokens: what each variant changes."""

from dataclasses import replace

import pytest
import torch

from vnait.positions.coordinates import Elastic
from vnait.positions.encodings import Spatial
from vnait.positions.inputs import Local, Nearest
from vnait_lab.runs import masked_words
from vnait_lab.runs.masked_words import VARIANTS, part_of, prepare
from vnait_lab.suites import language
from vnait_lab.suites.language import QUICK, Corpus

SMALL = replace(QUICK, steps=12, batch=4, hidden_size=16, warmup=1, learning_rate=0.1)


@pytest.fixture(scope="module")
def text() -> Corpus:
    ids = torch.randint(3, 20, (3_000,), generator=torch.Generator().manual_seed(0))
    return Corpus(masked=True, unit="letters", words=20, train=ids, validation=ids, test=ids)


def trained(text: Corpus, variant: str, start: float) -> tuple[language.Model, list[float]]:
    shares: list[float] = []
    method, change = VARIANTS[variant]

    def changed(model: language.Model) -> None:
        prepare(model, start=start, change=change, shares=shares)

    return language.fit_at(method, text, 0, SMALL, SMALL.learning_rate, changed), shares


@pytest.mark.parametrize("variant", VARIANTS)
def test_weights_are_learned_unless_the_gate_rests(text: Corpus, variant: str) -> None:
    _, shares = trained(text, variant, 1.0)
    learned = variant in ("learned", "plain")
    assert (max(shares, default=0) > 0) == learned
    assert len(shares) == (0 if variant == "vnait-uniform" else SMALL.steps)


def test_neighbours_that_count_have_the_same_views(text: Corpus) -> None:
    """Plain neighbours have the same views, and read no coordinates."""
    for variant, reads in (("learned", True), ("plain", False)):
        inputs = trained(text, variant, 1.0)[0].model.method.inputs
        assert getattr(inputs, "reads_coordinates", False) == reads
        assert [type(view) for view in inputs.views] == [Local, Nearest]


def test_s_starts_where_it_should(text: Corpus, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(language, "minimize", lambda *_, **__: None)
    large, small = (part_of(trained(text, "vnait", start)[0], Spatial).direct.weight for start in (1.0, 0.1))
    torch.testing.assert_close(large, 10 * small)


def test_a_line_has_a_loss_per_length(text: Corpus) -> None:
    line = masked_words.row(text, 0.03, "vnait", 1, SMALL)
    assert line.count("/") == 2
    assert "below 0.99" in line
    assert part_of(torch.nn.Identity(), Elastic) is None
