from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp

from xmc.fit import held_out
from xmc.plan.estimate import Scale, Size, train_stages
from xmc.plan.training import TrainProbe, expected_features
from xmc.stages import Cost


@pytest.mark.parametrize(("n_docs", "n_judging"), [(0, 0), (999, 0), (30_000, 0), (1500, 500), (9000, 5000)])
def test_as_many_are_held_out_as_the_fit_holds_out(n_docs, n_judging):
    assert Size(n_docs, 1, 1, n_judging).n_held == held_out(n_docs, 0, n_judging).sum()


def test_what_is_farther_counts_labels_documents_and_names():
    class Probe:
        matching = Cost(1e-3, 2e-3)

    scale = Scale(Size(1000, 200, 300), Size(100, 50, 60), Cost(1e-4, 1e-4))
    more = scale.farther(Probe)  # type: ignore[arg-type]
    assert more.cpu == pytest.approx((900 + 150) * 1e-4 + 240 * 1e-3)
    assert scale.held == pytest.approx(200 / 20)


def test_training_grows_with_steps_and_with_the_labels_that_judge():
    probe = TrainProbe(Cost(1, 1), Cost(2, 2), Cost(), Cost(), 0, 0.0, 500, 1000, 10, 0)
    scale = Scale(Size(16_000, 3000, 0), Size(1000, 1000, 0), Cost())
    found = train_stages(probe, scale, n_epochs=2, again=True)
    assert found["training"].cpu == pytest.approx(2 * 100 + 2 * 2 * 3)  # 12,800 documents in steps of 128
    assert found["training on all"].cpu == pytest.approx(2 * 125)
    assert "training on all" not in train_stages(probe, scale, n_epochs=2, again=False)


def test_features_to_come_follow_the_growth_of_the_sample():
    zipf = np.random.default_rng(0).zipf(1.5, (8000, 20)).clip(max=200_000)
    rows = np.repeat(np.arange(8000), 20)
    features = sp.csr_matrix((np.ones(zipf.size, np.float32), (rows, zipf.ravel())), (8000, 200_001))
    features.data[:] = 1
    whole = int((np.bincount(features.indices) > 1).sum())
    assert expected_features(features[::8], 8.0) == pytest.approx(whole, rel=0.3)
