from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import scipy.sparse as sp
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from xmc.artifacts import load_array, load_tensors, save_array, save_tensors
from xmc.encoders import trained
from xmc.encoders.trained import TrainedTower
from xmc.errors import ArtifactError

N_FEATURES, DENSE_DIM, BAG_DIM = 12, 3, 8
COLUMNS = np.array([0, 2, 3, 7, 8, 11])
QUICK = settings(max_examples=40, deadline=None)
seeds = st.integers(0, 10_000)


def untrained(dense_dim: int = DENSE_DIM, bag_dim: int = BAG_DIM, seed: int = 0) -> TrainedTower:
    return TrainedTower.untrained(COLUMNS, N_FEATURES, dense_dim, bag_dim, seed)


def drawn(seed: int = 0, dense_dim: int = DENSE_DIM) -> TrainedTower:
    """A tower whose every weight was drawn, as after training."""
    tower, generator = untrained(dense_dim), torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for parameter in tower.head.parameters():
            parameter.copy_(torch.randn(parameter.shape, generator=generator))
    return tower


def features(seed: int = 0, n: int = 9, n_features: int = N_FEATURES) -> sp.csr_matrix:
    """Some rows with many features, and about every third with none."""
    rng = np.random.default_rng(seed)
    kept = (rng.random((n, n_features)) < 0.4) & (rng.random((n, 1)) < 0.7)
    return sp.csr_matrix((rng.uniform(0.1, 1, (n, n_features)) * kept).astype(np.float32))


def unit(rows: np.ndarray) -> np.ndarray:
    return rows / np.maximum(np.linalg.norm(rows, axis=1, keepdims=True), 1e-12)


def vectors(seed: int = 0, n: int = 9, dim: int = DENSE_DIM) -> np.ndarray:
    """Unit rows, every fourth zero."""
    rows = unit(np.random.default_rng(seed + 1).standard_normal((n, dim))).astype(np.float32)
    rows[::4] = 0
    return rows


def no_words(n: int) -> sp.csr_matrix:
    return sp.csr_matrix((n, N_FEATURES), dtype=np.float32)


def test_untrained_keeps_the_similarity_of_dense_vectors():
    dense = vectors()
    found = untrained().encode(no_words(9), dense)
    assert found @ found.T == pytest.approx(dense @ dense.T, abs=1e-5)


def test_untrained_keeps_the_similarity_of_words_but_for_noise():
    tower, words = untrained(bag_dim=1024), features(n=40)
    found = tower.encode(words, np.zeros((40, DENSE_DIM)))
    wanted = unit(words.toarray()[:, COLUMNS])
    error = found @ found.T - wanted @ wanted.T
    assert np.abs(error).max() < 0.15
    assert np.abs(error).mean() < 0.03
    assert tower.bag.norm(dim=1).numpy() == pytest.approx(np.ones(len(COLUMNS)), abs=0.15)


def test_untrained_has_the_mean_of_both_similarities():
    tower, words = untrained(), features()
    dense = vectors()
    both = (words[:, COLUMNS].getnnz(axis=1) > 0) & dense.any(axis=1)
    assert both.sum() > 1
    alone = [tower.encode(no_words(9), dense), tower.encode(words, np.zeros_like(dense))]
    wanted = sum(each @ each.T for each in alone) / 2
    found = tower.encode(words, dense)
    assert (found @ found.T)[np.ix_(both, both)] == pytest.approx(wanted[np.ix_(both, both)], abs=1e-5)


def test_the_length_of_dense_vectors_does_not_matter():
    tower = drawn()
    long = tower.encode(features(), 100 * vectors())
    assert long == pytest.approx(tower.encode(features(), vectors()), abs=1e-5)


@QUICK
@given(seeds, st.sampled_from([0, DENSE_DIM]))
def test_rows_are_unit_and_those_of_empty_texts_zero(seed, dense_dim):
    words, dense = features(seed), vectors(seed, dim=DENSE_DIM)[:, :dense_dim]
    for tower in (untrained(dense_dim), drawn(seed, dense_dim)):
        found = tower.encode(words, dense)
        assert found.dtype == np.float32
        assert found.shape == (9, tower.dim) == (9, dense_dim + BAG_DIM)
        known = (words[:, COLUMNS].getnnz(axis=1) > 0) | dense.any(axis=1)
        assert np.linalg.norm(found, axis=1) == pytest.approx(known.astype(float), abs=1e-5)
        assert not found[~known].any()


@QUICK
@given(seeds, st.integers(1, 10))
def test_a_row_does_not_depend_on_the_others(seed, block):
    tower, words, dense = drawn(seed), features(seed), vectors(seed)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(trained, "BLOCK", block)
        found = tower.encode(words, dense)
    for i in range(9):
        alone = tower.encode(words[i], dense[i : i + 1])
        assert alone[0] == pytest.approx(found[i], abs=1e-5)


def test_no_texts_and_no_features_that_are_kept():
    assert drawn().encode(no_words(0), vectors(n=0)).shape == (0, DENSE_DIM + BAG_DIM)
    tower = TrainedTower.untrained(COLUMNS[:0], N_FEATURES, DENSE_DIM, BAG_DIM, 0)
    assert tower.encode(features(), vectors())[:, :DENSE_DIM] == pytest.approx(vectors(), abs=1e-6)


@QUICK
@given(seeds)
def test_selected_features_have_unit_rows(seed):
    words = features(seed)
    found = untrained().select(words)
    assert found.dtype == np.float32
    assert found.toarray() == pytest.approx(unit(words.toarray()[:, COLUMNS]), abs=1e-6)


def test_selecting_copes_with_zeros_and_unsorted_columns():
    data = np.array([3, 9, 4, 0], np.float32)
    words = sp.csr_matrix((data, [7, 1, 0, 2], [0, 3, 4, 4]), (3, N_FEATURES))
    found = untrained().select(words).toarray()
    assert found[0] == pytest.approx([0.8, 0, 0, 0.6, 0, 0])
    assert not found[1:].any()
    assert words.data.tolist() == [3, 9, 4, 0]


@QUICK
@given(seeds)
def test_bags_are_weighted_sums(seed):
    tower = untrained(seed=seed)
    selected = tower.select(features(seed))
    wanted = selected.toarray() @ tower.bag.numpy()
    assert tower.bags(selected).numpy() == pytest.approx(wanted, abs=1e-5)


def test_the_seed_alone_decides_and_no_other_drawing_is_disturbed():
    torch.manual_seed(5)
    before = torch.random.get_rng_state()
    one = untrained().encode(features(), vectors())
    assert torch.equal(torch.random.get_rng_state(), before)
    torch.manual_seed(6)
    assert (untrained().encode(features(), vectors()) == one).all()
    assert (untrained(seed=1).encode(features(), vectors()) != one).any()


@pytest.mark.parametrize("dense_dim", [0, DENSE_DIM])
def test_saved_and_loaded(tmp_path, dense_dim):
    tower, dense = drawn(3, dense_dim), vectors(dim=DENSE_DIM)[:, :dense_dim]
    tower.save(tmp_path)
    again = TrainedTower.load(tmp_path, N_FEATURES, dense_dim)
    assert (again.encode(features(), dense) == tower.encode(features(), dense)).all()
    assert again.columns.tolist() == COLUMNS.tolist()
    assert (again.n_features, again.dim) == (tower.n_features, tower.dim)


@pytest.fixture
def saved(tmp_path: Path) -> Path:
    drawn().save(tmp_path)
    return tmp_path


def load(directory: Path) -> TrainedTower:
    return TrainedTower.load(directory, N_FEATURES, DENSE_DIM)


@pytest.mark.parametrize(
    "columns",
    [
        [0, 2, 3, 7, 8],
        [0, 2, 3, 7, 8, 9, 11],
        [],
        [0, 2, 3, 7, 8, N_FEATURES],
        [-1, 2, 3, 7, 8, 11],
        [0, 2, 3, 8, 7, 11],
        [0, 2, 3, 7, 7, 11],
        [COLUMNS.tolist()],
        [0.0, 2, 3, 7, 8, 11],
        [False] * 6,
    ],
)
def test_features_that_do_not_fit_are_refused(saved, columns):
    save_array(saved / "trained_columns.npy", np.array(columns, None if columns else np.int64))
    with pytest.raises(ArtifactError, match="trained weights and features do not fit"):
        load(saved)


def test_fewer_features_than_it_was_trained_with_are_refused(saved):
    with pytest.raises(ArtifactError, match="do not fit"):
        TrainedTower.load(saved, int(COLUMNS[-1]), DENSE_DIM)


@pytest.mark.parametrize("dense_dim", [0, DENSE_DIM + 1])
def test_dense_vectors_of_another_length_are_refused(saved, dense_dim):
    with pytest.raises(ArtifactError, match="do not fit"):
        TrainedTower.load(saved, N_FEATURES, dense_dim)


def rewrite(directory: Path, name: str, value: Tensor | None) -> None:
    """Give one tensor another value, or leave it out."""
    path = directory / "trained.safetensors"
    tensors = load_tensors(path)
    tensors.pop(name, None)
    save_tensors(path, tensors if value is None else tensors | {name: value})


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("bag", None),
        ("bag", torch.zeros(6)),
        ("bag", torch.zeros(5, BAG_DIM)),
        ("bag", torch.zeros(6, BAG_DIM + 1)),
        ("bag", torch.zeros(6, BAG_DIM, 1)),
        ("bag", torch.zeros(6, BAG_DIM).double()),
        ("head.map", None),
        ("head.map", torch.eye(DENSE_DIM + 1)),
        ("head.weights", None),
        ("head.weights", torch.ones(3)),
        ("head.inner.weight", None),
        ("head.outer.bias", None),
        ("head.more", torch.zeros(1)),
    ],
)
def test_weights_of_other_names_or_shapes_are_refused(saved, name, value):
    rewrite(saved, name, value)
    with pytest.raises(ArtifactError, match="train again"):
        load(saved)


@pytest.mark.parametrize("name", ["bag", "head.map", "head.weights", "head.inner.bias", "head.outer.weight"])
@pytest.mark.parametrize("bad", [float("nan"), float("inf"), -float("inf")])
def test_weights_that_are_not_finite_are_refused(saved, name, bad):
    value = load_tensors(saved / "trained.safetensors")[name].clone()
    value.view(-1)[-1] = bad
    rewrite(saved, name, value)
    with pytest.raises(
        ArtifactError, match=f"{name.removeprefix('head.')} holds numbers that are not finite"
    ):
        load(saved)


@pytest.mark.parametrize("name", ["trained.safetensors", "trained_columns.npy"])
def test_missing_and_cut_files_are_refused(saved, name):
    whole = (saved / name).read_bytes()
    (saved / name).write_bytes(whole[:-1])
    with pytest.raises(ArtifactError, match=name):
        load(saved)
    (saved / name).unlink()
    with pytest.raises(ArtifactError, match="file is missing"):
        load(saved)


def test_the_columns_are_saved_as_they_are(saved):
    assert load_array(saved / "trained_columns.npy").tolist() == COLUMNS.tolist()
