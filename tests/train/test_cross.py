"""A cross-encoder fitted: a tiny one, on texts of which only both together tell what is right."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from tests.cases.corpus_t import docs_file, labels_file, synthetic, xmc
from tests.edit.made import label_set
from tests.encoders.tiny import tiny_model
from tests.train.test_tuning import Bar
from xmc.artifacts import open_artifact
from xmc.crossed import Crossed
from xmc.data.records import DocumentBatch
from xmc.encoders.dense import DenseTower
from xmc.errors import TrainingError
from xmc.rerank.cross import text_pairs
from xmc.shortlist import Candidates
from xmc.train import cross
from xmc.train.cross import CrossData, CrossTrainer, FittedCross, fit_cross

N_DOCS, SEED = 120, 3
NAMES = ["air", "sea", "space"]
LABELS = label_set([(f"L{i}", name) for i, name in enumerate(NAMES)])


@pytest.fixture(scope="module")
def tower(tmp_path_factory) -> DenseTower:
    return DenseTower.load(str(tiny_model(tmp_path_factory.mktemp("tiny") / "tiny")), 16, "cpu", "fp32")


@pytest.fixture(scope="module", autouse=True)
def quick():
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(cross, "EPOCHS", 20)
        patch.setattr(cross, "WARM_UP", 1)
        patch.setattr(cross, "RATE", 1e-2)
        patch.setattr(cross, "HEAD_RATE", 1e-2)
        yield


def topics(n: int = N_DOCS) -> np.ndarray:
    return np.random.default_rng(1).integers(0, 3, n)


def texts_of(n: int = N_DOCS) -> list[str]:
    """Words that are not those of the labels: one of three for each label, in no fixed place."""
    hints = ["rocket", "fish", "law"]
    return [f"{'budget ' * (i % 3)}{hints[topic]} annual" for i, topic in enumerate(topics(n))]


def found_in(n: int = N_DOCS) -> tuple[Candidates, np.ndarray, np.ndarray]:
    """All labels are candidates of each document, equally likely; one is right."""
    rows = np.tile(np.arange(3), n)
    found = Candidates(np.arange(0, 3 * n + 1, 3), rows, np.zeros((3 * n, 6), np.float32), None)
    return found, np.full(3 * n, -0.7, np.float32), rows == np.repeat(topics(n), 3)


@pytest.fixture(scope="module")
def data(tower) -> CrossData:
    found, log_odds, right = found_in()
    pairs, there = text_pairs(tower, texts_of(), LABELS, found.of_doc, found.rows)
    assert there.all()
    return CrossData(pairs, found.of_doc, log_odds, right)


def fitted(tower: DenseTower, data: CrossData, work: Path) -> tuple[FittedCross | None, list[str]]:
    lines: list[str] = []
    work.mkdir(exist_ok=True)
    return fit_cross(tower, data, 2, SEED, work, lines.append, Bar), lines


def test_what_both_texts_tell_together_is_learned(tower, data, tmp_path):
    found, lines = fitted(tower, data, tmp_path)
    assert found is not None
    best = found.unseen.reshape(-1, 3).argmax(axis=1)
    assert (best == topics()).mean() > 0.9
    read = found.cross.read(data.pairs).reshape(-1, 3)
    assert (read.argmax(axis=1) == topics()).mean() > 0.9
    assert found.cross.mix.weights[1] > 0
    assert found.cross.top == 2
    (line,) = lines
    assert line.startswith("rerank.cross: log loss of a pair that it was not fitted on 0.")
    assert not line.endswith("none")
    again, _ = fitted(tower, data, tmp_path)  # taken as it is
    assert (again.unseen == found.unseen).all()


def test_where_texts_tell_nothing_there_is_none(tower, data, tmp_path, monkeypatch):
    monkeypatch.setattr(cross, "EPOCHS", 2)
    right = np.random.default_rng(5).permutation(data.right)
    found, lines = fitted(tower, CrossData(data.pairs, data.of_doc, data.log_odds, right), tmp_path)
    assert found is None
    assert lines[0].endswith("the model has none")


def test_with_few_right_candidates_nothing_is_fitted(tower, data, tmp_path):
    some = data.take(np.arange(3 * 49))
    assert some.right.sum() == 49
    found, lines = fitted(tower, some, tmp_path)
    assert found is None
    assert "too few" in lines[0]
    assert not list(tmp_path.iterdir())


def test_a_run_cut_off_goes_on_to_the_same_bytes(tower, data, tmp_path, monkeypatch):
    monkeypatch.setattr(cross, "EPOCHS", 2)
    monkeypatch.setattr(cross, "SAVE_EVERY", -1)
    whole, _ = fitted(tower, data, tmp_path / "whole")
    steps: list[int] = []

    def killed(self: CrossTrainer, docs: np.ndarray) -> float:
        steps.append(self.step)
        if len(steps) == 20:  # in the second half
            raise KeyboardInterrupt
        return learn(self, docs)

    learn = CrossTrainer.learn
    monkeypatch.setattr(CrossTrainer, "learn", killed)
    with pytest.raises(KeyboardInterrupt):
        fitted(tower, data, tmp_path / "cut")
    again, _ = fitted(tower, data, tmp_path / "cut")
    assert steps[:22] == [*range(16), 0, 1, 2, 3, 3, 4]
    assert (whole is None) == (again is None)
    reads = [sorted(f.read_bytes() for f in (tmp_path / n).glob("*/read.npy")) for n in ("whole", "cut")]
    assert len(reads[0]) == 2
    assert reads[0] == reads[1]


def test_a_loss_that_is_no_number_is_told(tower, data, monkeypatch):
    trainer = CrossTrainer(tower, data, SEED)
    trainer.head.data.fill_(float("nan"))
    with pytest.raises(TrainingError, match=r"cross-encoder, step 1: the loss is nan; .* rerank\.cross"):
        trainer.learn(np.arange(4))


def test_candidates_get_the_log_odds_of_one_that_did_not_know_them(tower, tmp_path):
    """Documents come in batches, some are held out, and the fit has them in another order."""
    lines: list[str] = []
    crossed = Crossed(
        tower, 2, LABELS, SEED, tmp_path / "cross", lines.extend, lambda what, _, n: Bar(what, n)
    )
    texts = ["rocket", *texts_of()]
    ids = [str(i) for i in range(len(texts))]
    for part in (slice(0, 30), slice(30, None)):
        batch = DocumentBatch(ids[part], texts[part], None, None, ids[part])
        crossed.see(batch, np.arange(1 if part.start == 0 else 0, len(batch)))
    order = np.random.default_rng(0).permutation(N_DOCS)
    found, log_odds, right = found_in()
    log_odds = log_odds + np.where(found.rows == 2, -0.1, 0).astype(np.float32)  # which is never read
    right = right.reshape(-1, 3)[order].ravel()
    made, again = crossed.fitter(order)(found, log_odds, right)
    assert made is not None
    changed = (again != log_odds).reshape(-1, 3)
    assert changed[:, :2].all()
    assert not changed[:, 2].any()
    of_two = topics()[order] < 2
    best = again.reshape(-1, 3)[of_two, :2].argmax(axis=1)
    assert (best == topics()[order][of_two]).mean() > 0.9


def test_index_fits_one_where_it_is_asked_for(tower, tmp_path, capsys):
    """The tiny encoder knows none of the words, so that it cannot help, and says so."""
    labels, docs = synthetic(20, 120)
    files = labels_file(tmp_path / "labels.jsonl", labels), docs_file(tmp_path / "docs.jsonl", docs)
    given = "index", "--labels", files[0], "--docs", files[1], "-o", tmp_path / "model", "preset=fast"
    wanted = f"rerank.cross={tower._folder}", "rerank.top=2", "rerank.tokens=16", "device=cpu", "dtype=fp32"
    cross.EPOCHS = 1  # the fixture puts it back
    assert xmc(*given, *wanted) == 0
    assert "rerank.cross: " in capsys.readouterr().err
    settings = open_artifact(tmp_path / "model", "model").settings
    assert (settings["rerank.top"], settings["rerank.tokens"]) == (2, 16)
    assert not (tmp_path / ".model.xmc-build").exists()
