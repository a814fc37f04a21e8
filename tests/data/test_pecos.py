from __future__ import annotations

import numpy as np
import pytest
from scipy import sparse

from xmc.data import pecos
from xmc.data.formats import labels_of, open_corpus
from xmc.data.gold import label_matrix
from xmc.data.options import ReadOptions, ReadReport
from xmc.errors import InputError

X = sparse.csr_matrix(np.array([[0, 0.5, 0], [1, 0, 2], [0, 0, 0]]))
Y = sparse.csr_matrix(np.array([[1, 0], [0, 1], [1, 1]], dtype=np.float32))


def save(folder, x=X, y=Y, name="{}.npz"):
    sparse.save_npz(folder / name.format("X"), x)
    if y is not None:
        sparse.save_npz(folder / name.format("Y"), y)
    return folder / name.format("X")


def batches(path, size=2):
    return list(pecos.read_batches(path, size, ReadOptions(), ReadReport()))


@pytest.mark.parametrize("by_folder", [True, False])
def test_the_rows_of_both_matrices_are_read(tmp_path, by_folder):
    x_path = save(tmp_path)
    read = batches(tmp_path if by_folder else x_path)
    assert [len(batch) for batch in read] == [2, 1]
    assert np.array_equal(sparse.vstack([b.features for b in read]).toarray(), X.toarray())
    assert read[0].features.dtype == np.float32
    assert [labels for batch in read for labels in batch.labels] == [["0"], ["1"], ["0", "1"]]
    assert read[1].places == [f"{x_path}: row 2"]


def test_corpus_and_labels_come_from_the_same_path(tmp_path):
    save(tmp_path, name="{}.trn.npz")
    (tmp_path / "output-items.txt").write_text("air\nfish\n")
    corpus, labels = open_corpus([tmp_path]), labels_of(tmp_path)
    assert labels.texts.to_pylist() == ["air", "fish"]
    assert corpus.n_features == 3
    assert np.array_equal(label_matrix(corpus, labels).toarray(), Y.toarray())
    assert labels_of(tmp_path / "Y.trn.npz").ids.to_pylist() == ["0", "1"]


def test_without_y_there_are_no_labels(tmp_path):
    path = save(tmp_path, y=None)
    assert batches(path)[0].labels is None
    with pytest.raises(InputError, match=r"no Y\.npz lies beside it"):
        labels_of(path)


def test_x_and_y_of_different_length_are_refused_with_both_numbers(tmp_path):
    with pytest.raises(InputError, match=r"X.npz: 3 documents, but .*Y.npz has 2"):
        batches(save(tmp_path, y=Y[:2]))


@pytest.mark.parametrize("bad", [np.nan, np.inf, 1e39])
def test_values_that_are_not_finite_are_refused_with_their_row(tmp_path, bad):
    x = X.copy()
    x.data[1] = bad
    with pytest.raises(InputError, match=r"X.npz: row 1: feature 0 is (nan|inf)"):
        batches(save(tmp_path, x))


def test_a_folder_of_several_or_no_matrices_is_refused(tmp_path):
    (tmp_path / "empty").mkdir()
    with pytest.raises(InputError, match=r"holds no X\.npz"):
        batches(tmp_path / "empty")
    save(tmp_path, name="{}.trn.npz")
    save(tmp_path, name="{}.tst.npz")
    with pytest.raises(InputError, match=r"holds X.trn.npz, X.tst.npz; give one of them"):
        batches(tmp_path)


def test_labels_stored_as_zero_are_none(tmp_path):
    y = Y.copy()
    y.data[0] = 0
    assert batches(save(tmp_path, y=y))[0].labels == [[], ["1"]]


def test_a_file_cut_short_is_refused(tmp_path):
    path = save(tmp_path)
    path.write_bytes(path.read_bytes()[:-100])
    with pytest.raises(InputError, match=r"X\.npz: not a readable npz file"):
        batches(path)


def test_another_layout_is_refused(tmp_path):
    sparse.save_npz(tmp_path / "X.npz", X.tocsc())
    with pytest.raises(InputError, match="stored as 'csc'; 'csr' was wanted"):
        batches(tmp_path / "X.npz")
    np.savez(tmp_path / "X.npz", a=np.zeros(3))
    with pytest.raises(InputError, match="no array indptr, indices, data, shape"):
        batches(tmp_path / "X.npz")
