from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse as sp

from tests.cases.corpus_t import docs_file, index, labels_file, synthetic, xmc
from xmc.calibration import HeldOutSample
from xmc.errors import ArtifactError
from xmc.reliability import HeldOutReliability, held_out_reliability


def sample_of(probabilities: np.ndarray, right: np.ndarray) -> HeldOutSample:
    """(n_docs, n_labels) of both; every pair is a candidate."""
    gold = sp.csr_matrix(right.astype(np.float32))
    n_labels = probabilities.shape[1]
    return HeldOutSample(sp.csr_matrix(probabilities.astype(np.float32)), gold, np.zeros(n_labels, np.int64))


def test_only_the_five_best_of_a_document_count():
    probabilities = np.tile([0.9, 0.8, 0.7, 0.6, 0.5, 0.4], (30, 1))
    right = np.zeros((30, 6), bool)
    right[:, 5] = True
    found = HeldOutReliability.of(sample_of(probabilities, right))
    assert found.n_docs == 30
    assert found.curve.n_pairs.sum() == 150
    assert found.error == pytest.approx(0.7)


def test_good_probabilities_have_a_small_error_and_bars_that_end_at_the_marks():
    rng = np.random.default_rng(0)
    probabilities = rng.uniform(0.02, 0.98, (3000, 5))
    good = HeldOutReliability.of(sample_of(probabilities, rng.random((3000, 5)) < probabilities))
    assert good.error < 0.02
    head, columns, *rows = good.lines()
    assert "calibration error " in head
    assert "3,000 documents" in head
    assert len(rows) == 15
    assert columns.endswith("suggestions")
    for row in rows:
        bar = row[21:71]
        assert abs(bar.index("|") - bar.count("#")) <= 4
    turned = HeldOutReliability.of(sample_of(probabilities, rng.random((3000, 5)) > probabilities))
    assert turned.error > 0.3


@pytest.fixture(scope="module")
def files(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("model")
    labels, docs = synthetic(30, 150)
    labels_file(folder / "labels.jsonl", labels)
    docs_file(folder / "docs.jsonl", docs)
    return folder


def test_a_model_tells_it_when_it_is_made_and_when_it_is_inspected(files, capsys):
    model = index(files / "model", files / "labels.jsonl", files / "docs.jsonl")
    found = held_out_reliability(model)
    assert found.n_docs == 30
    assert f"xmc: {found.line()}" in capsys.readouterr().err.split("\n")
    assert xmc("inspect", model) == 0
    assert capsys.readouterr().out.endswith("\n".join(found.lines()) + "\n")
    assert xmc("inspect", model, "--json") == 0
    (artifact,) = json.loads(capsys.readouterr().out)["artifacts"]
    assert artifact["calibration"] == found.record()
    assert sum(each["suggestions"] for each in found.record()["bins"]) == 150


def test_a_model_without_documents_has_none(files, capsys):
    bare = index(files / "bare", files / "labels.jsonl")
    assert held_out_reliability(bare) is None
    assert xmc("inspect", bare) == 0
    assert "calibration error" not in capsys.readouterr().out


def test_what_is_no_model_is_refused(tmp_path):
    with pytest.raises(ArtifactError):
        held_out_reliability(tmp_path)
