"""Too few points, more results than labels, zero and constant vectors: as a user meets them."""

from __future__ import annotations

import numpy as np
import pytest

from tests.index.brute_force import ALL_KINDS
from xmc.errors import InputError, SettingError
from xmc.index.kinds import make_index


def vectors(n, dim=8):
    return np.random.default_rng(0).standard_normal((n, dim), dtype=np.float32)


@pytest.mark.parametrize(("n", "built_as"), [(3, "exact"), (50, "exact"), (1000, "ivf_flat")])
def test_too_few_points_to_train_a_product_quantiser(n, built_as):
    index = make_index("ivf_pq", 8)
    index.add(np.arange(n), vectors(n))
    index.compact()
    assert index.built_as == built_as
    assert f"found {n}: {built_as} is used instead" in index.notice
    assert index.search(vectors(5), 3).rows.shape == (5, 3)
    if built_as == "ivf_flat":
        assert index._structure.n_lists <= 25


def test_strict_states_the_need():
    index = make_index("ivf_pq", 8, strict=True)
    index.add(np.arange(50), vectors(50))
    with pytest.raises(SettingError, match=r"needs 9984 vectors \(39 per cluster\), found 50; choose index"):
        index.compact()
    assert index.search(vectors(1), 1).rows.tolist() == [[0]]


@pytest.mark.parametrize("kind", ALL_KINDS)
@pytest.mark.parametrize("compacted", [False, True])
def test_four_labels_and_ten_results(kind, compacted):
    index = make_index(kind, 8)
    index.add(np.arange(4), vectors(4))
    if compacted:
        index.compact()
    found = index.search(vectors(6), 10).rows
    assert np.sort(found, axis=1).tolist() == [[0, 1, 2, 3]] * 6
    assert index.search(vectors(6), 0).rows.shape == (6, 0)
    with pytest.raises(ValueError, match="k is -1"):
        index.search(vectors(6), -1)


@pytest.mark.parametrize("kind", ALL_KINDS)
def test_zero_and_not_finite_vectors_are_refused_by_row(kind):
    index = make_index(kind, 8)
    bad = vectors(6)
    bad[1], bad[4, 3], bad[5, 0] = 0, np.nan, 7e4
    with pytest.raises(InputError, match=r"row 11: zero|row 14: NaN"):
        index.add(np.arange(10, 16), bad)
    with np.errstate(over="ignore"):
        overflown = bad[5:].astype(np.float16)
    with pytest.raises(InputError, match="row 15: NaN or Inf"):
        index.add(np.array([15]), overflown)
    assert index.n_searchable == 0


@pytest.mark.parametrize("kind", ALL_KINDS)
def test_a_retired_label_is_gone_and_comes_back_in_its_row(kind):
    index = make_index(kind, 8)
    index.add(np.arange(4), vectors(4))
    index.compact()
    index.retire(np.array([1]))
    index.add(np.array([4]), vectors(5)[4:])
    assert index.search(vectors(5), 9).rows[:, 0].tolist()[2:] == [2, 3, 4]
    assert 1 not in index.search(vectors(5), 9).rows
    index.restore(np.array([1]))
    assert index.search(vectors(5), 1).rows.ravel().tolist() == [0, 1, 2, 3, 4]
