from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp

from xmc.artifacts import save_array
from xmc.data.records import DocumentBatch
from xmc.encoders.given import GivenTower
from xmc.encoders.lexical import LexicalSettings
from xmc.errors import ArtifactError, InputError

SETTINGS = LexicalSettings(dim=32)
ROWS = sp.csr_matrix(np.array([[1, 0, 2], [0, 0, 3], [0, 0, 0]], np.float32))


def batch(matrix: sp.csr_matrix | None) -> DocumentBatch:
    n = 1 if matrix is None else matrix.shape[0]
    places = [f"x.txt:{i + 2}" for i in range(n)]
    return DocumentBatch(places, None if matrix is not None else ["text"], matrix, None, places)


@pytest.fixture
def tower() -> GivenTower:
    return GivenTower.fit([ROWS[:1], ROWS[1:]], 3, SETTINGS)


def test_weights_fall_with_the_documents_that_hold_a_feature(tower):
    assert tower.idf == pytest.approx(1 + np.log(4 / np.array([2, 1, 3])))


def test_rows_become_unit_rows_and_unit_vectors(tower):
    features, _ = tower.features_of(batch(ROWS))
    assert np.linalg.norm(features.toarray(), axis=1) == pytest.approx([1, 1, 0])
    assert np.linalg.norm(tower.project(features), axis=1) == pytest.approx([1, 1, 0])
    assert features[0, 2] / features[0, 0] == pytest.approx(2 * tower.idf[2] / tower.idf[0])


def test_first_lines_are_empty(tower):
    _, leads = tower.features_of(batch(ROWS))
    assert leads.shape == (3, 3)
    assert leads.nnz == 0


def test_values_near_the_ends_of_float32(tower):
    rows, _ = tower.features_of(batch(sp.csr_matrix(np.array([[3e38, 0, 3e38], [1e-38, 0, 0]], np.float32))))
    assert np.linalg.norm(rows.toarray(), axis=1) == pytest.approx([1, 1])


def test_explicit_zeros_make_no_vector(tower):
    zero = sp.csr_matrix((np.zeros(1, np.float32), [0], [0, 1]), (1, 3))
    assert not tower.project(tower.features_of(batch(zero))[0]).any()


def test_documents_of_another_kind_are_refused_with_their_place(tower):
    with pytest.raises(InputError, match=r"x\.txt:2: text, but the model was built on sparse features"):
        tower.features_of(batch(None))
    with pytest.raises(InputError, match=r"x\.txt:2: 4 features; the model was built on 3"):
        tower.features_of(batch(sp.csr_matrix((1, 4))))


def test_saved_and_loaded(tower, tmp_path):
    tower.save(tmp_path)
    again = GivenTower.load(tmp_path)
    features, _ = tower.features_of(batch(ROWS))
    assert (again.features_of(batch(ROWS))[0] != features).nnz == 0
    assert (again.project(features) == tower.project(features)).all()


@pytest.mark.parametrize(
    "idf", [np.full(3, np.inf, np.float32), np.ones((3, 1), np.float32), np.ones(3, np.int64)]
)
def test_what_cannot_be_weights_is_refused_by_name(tower, tmp_path, idf):
    tower.save(tmp_path)
    save_array(tmp_path / "given_idf.npy", idf)
    with pytest.raises(ArtifactError, match=r"given_idf\.npy: not positive float32 weights"):
        GivenTower.load(tmp_path)
