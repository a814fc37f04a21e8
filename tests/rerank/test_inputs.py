from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import scipy.sparse as sp
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.rerank.made import DIMS, Made
from xmc.encoders.windows import WindowVectors
from xmc.index.base import Shortlist
from xmc.rerank.inputs import BLOCK, N_BEST, N_NEAR, N_WINDOWS, RerankInputs, merged_windows, rerank_inputs

TOWERS = [("words",), ("dense", "words"), ("words", "trained"), ("dense", "words", "trained")]
FLOATS = ("own", "log_odds", "carried", "pairs", "near", "windows")


def cosine(one: np.ndarray, other: np.ndarray) -> float:
    one, other = one.astype(float), other.astype(float)
    length = float(np.linalg.norm(one) * np.linalg.norm(other))
    return float(one @ other) / length if length else 0.0


def slow_windows(vectors: np.ndarray) -> list[np.ndarray]:
    """At most ``N_WINDOWS`` sums of windows that stand side by side."""
    if len(vectors) <= N_WINDOWS:
        return list(vectors)
    sums = [np.zeros(vectors.shape[1]) for _ in range(N_WINDOWS)]
    for i, vector in enumerate(vectors):
        sums[i * N_WINDOWS // len(vectors)] += vector
    return sums


class Slow:
    """What the reranker sees of one document, number by number."""

    def __init__(self, made: Made, doc: int) -> None:
        self.made, self.doc = made, doc
        self.memory, self.scoreable = made.shortlister.memory, made.shortlister.scoreable
        self.towers = made.encoder.towers
        self.asked = made.encoded.towers[doc]
        near = made.found.neighbours
        self.near = [] if near is None else near.rows[doc, :N_NEAR].tolist()
        self.near_scores = [] if near is None else near.scores[doc, :N_NEAR].tolist()
        first, last = made.found.indptr[doc : doc + 2].tolist()
        best = sorted(range(first, last), key=lambda i: (-made.log_odds[i], i))[:N_BEST]
        self.place = sorted(best)
        index = made.shortlister.index
        known = np.flatnonzero(index.has(np.arange(index.n_rows)))
        self.prototypes = dict(zip(known.tolist(), index.vectors(known)[:, :-1], strict=True))
        self.labels = [self.labels_of(near) for near in self.near]
        self.means = [self.label_mean(labels) for labels in self.labels]
        self.vectors = [self.memory.index.vectors(np.array([near]))[0] for near in self.near]

    def prototype(self, row: int) -> np.ndarray:
        return self.prototypes[int(row)]

    def labels_of(self, near: int) -> dict[int, float]:
        found = self.memory.labels[near]
        return dict(zip(found.indices.tolist(), found.data.tolist(), strict=True))

    def label_mean(self, labels: dict[int, float]) -> np.ndarray:
        out = np.zeros(self.made.encoder.dim)
        for row, weight in labels.items():
            if self.scoreable[row]:
                out += weight * self.prototype(row) / np.linalg.norm(self.prototype(row))
        return out

    def similarities(self, one: np.ndarray, other: np.ndarray) -> list[float]:
        return [cosine(one[tower], other[tower]) for tower in self.towers]

    def own(self, i: int) -> list[float]:
        prototype = self.prototype(self.made.found.rows[i])
        return [*self.made.own[i].tolist(), *self.similarities(prototype, self.asked)]

    def carried(self, i: int) -> list[float]:
        return [labels.get(int(self.made.found.rows[i]), 0.0) for labels in self.labels]

    def pairs(self, i: int) -> list[list[float]]:
        prototype = self.prototype(self.made.found.rows[i])
        return [
            [cosine(prototype, mean), *self.similarities(prototype, vector)]
            for mean, vector in zip(self.means, self.vectors, strict=True)
        ]

    def neighbours(self) -> list[list[float]]:
        pairs = zip(self.near_scores, self.vectors, strict=True)
        return [[score, *self.similarities(self.asked, vector)] for score, vector in pairs]

    def own_windows(self) -> list[np.ndarray]:
        dense = self.made.encoded.dense
        return slow_windows(dense.windows[dense.indptr[self.doc] : dense.indptr[self.doc + 1]])

    def windows(self, i: int) -> list[float]:
        prototype = self.prototype(self.made.found.rows[i])[: DIMS["dense"]]
        return [cosine(prototype, window) for window in self.own_windows()]


def close(found: torch.Tensor, wanted: list) -> None:
    wanted = np.array(wanted, float).reshape(found.shape)
    assert np.allclose(found.numpy(), wanted, rtol=0, atol=1e-5)


def check(made: Made) -> RerankInputs:
    """All numbers of all documents against the slow reference."""
    inputs = made.inputs()
    for doc in range(len(inputs.place)):
        slow, n = Slow(made, doc), int((inputs.place[doc] >= 0).sum())
        assert inputs.place[doc].tolist() == [*slow.place, *[-1] * (N_BEST - n)]
        close(inputs.log_odds[doc, :n], made.log_odds[slow.place].tolist())
        close(inputs.own[doc, :n], [slow.own(i) for i in slow.place])
        close(inputs.carried[doc, :n], [slow.carried(i) for i in slow.place])
        close(inputs.pairs[doc, :n], [slow.pairs(i) for i in slow.place])
        close(inputs.near[doc], slow.neighbours())
        if made.encoder.dense_dim:
            there = inputs.is_window[doc]
            assert there.tolist() == [i < len(slow.own_windows()) for i in range(N_WINDOWS)]
            close(inputs.windows[doc, :n][:, there], [slow.windows(i) for i in slow.place])
    return inputs


@pytest.mark.parametrize("towers", TOWERS, ids="+".join)
def test_every_number_is_that_of_the_slow_reference(towers):
    inputs = check(Made(towers))
    assert inputs.own.shape[2] == 3 + len(towers)
    assert inputs.pairs.shape[2:] == (N_NEAR, 1 + len(towers))
    assert inputs.windows.shape[2] == (N_WINDOWS if "dense" in towers else 0)


@pytest.mark.parametrize("k", [0, 1, 7, N_NEAR, N_NEAR + 5])
def test_few_and_many_neighbours(k):
    inputs = check(Made(("dense", "words"), n_docs=3).with_neighbours(k))
    assert inputs.near.shape[1] == min(k, N_NEAR)


def test_without_a_memory_there_are_no_neighbours():
    made = Made(n_docs=3)
    made.shortlister = replace(made.shortlister, memory=None)
    made.found = replace(made.found, neighbours=None)
    inputs = check(made)
    assert inputs.carried.shape == (3, N_BEST, 0)
    assert inputs.pairs.shape == (3, N_BEST, 0, 4)


def test_labels_that_are_not_scoreable_count_in_no_mean():
    made = Made(n_docs=3)
    before = made.inputs().pairs
    made.shortlister = replace(made.shortlister, scoreable=np.arange(150) % 3 > 0)
    assert (check(made).pairs != before).any()


def test_labels_of_neighbours_that_have_no_vector():
    made = Made(n_docs=3)
    made.shortlister.index.remove(np.setdiff1d(np.arange(150), made.found.rows)[:1])
    rows = np.setdiff1d(np.arange(150), made.found.rows)[:1]
    made.shortlister.scoreable[rows] = False
    assert made.shortlister.memory.labels[:, rows].nnz
    check(made)


def test_where_no_label_of_any_neighbour_is_scoreable():
    made = Made(n_docs=3)
    made.shortlister = replace(made.shortlister, scoreable=np.zeros(150, bool))
    assert not check(made).pairs[..., 0].any()


def test_a_memory_whose_labels_count_for_less():
    made = Made(n_docs=3)
    labels = made.shortlister.memory.labels.copy()
    labels.data[labels.indices % 2 == 0] *= 0.25
    made.shortlister = replace(made.shortlister, memory=replace(made.shortlister.memory, labels=labels))
    assert set(check(made).carried.unique().tolist()) == {0, 0.25, 1}


def test_a_memory_without_labels():
    made = Made(n_docs=3)
    none = sp.csr_matrix((50, 150), dtype=np.float32)
    made.shortlister = replace(made.shortlister, memory=replace(made.shortlister.memory, labels=none))
    assert not check(made).carried.any()


def test_documents_without_a_vector_in_a_tower():
    made = Made()
    made.encoded.lexical[1] = 0
    made.encoded.trained[2:] = 0
    assert torch.cat([part.flatten() for part in check(made)]).isfinite().all()


@pytest.mark.parametrize("n_docs", [1, BLOCK + 3])
def test_where_no_document_has_a_candidate(n_docs):
    made = Made(n_docs=n_docs, n_candidates=(0,))
    inputs = made.inputs()
    assert inputs.place.shape == (n_docs, N_BEST)
    assert (inputs.place == -1).all()
    assert not any(getattr(inputs, name).isnan().any() for name in FLOATS)


def test_empty_places_hold_no_labels():
    inputs = Made(n_docs=5).inputs()
    empty = inputs.place < 0
    for name in ("own", "log_odds", "carried", "pairs", "windows"):
        assert not getattr(inputs, name)[empty].any(), name


def test_the_best_candidates_are_scored_again_and_of_equal_ones_the_first():
    made = Made(n_docs=2, n_candidates=(130,))
    made.log_odds[:] = np.resize([1.0, 2.0], 260)
    place = made.inputs().place[0].tolist()
    assert place == sorted([*range(1, 130, 2), *range(0, 130, 2)][:N_BEST])


def test_blocks_are_of_bounded_size():
    made = Made(n_docs=2 * BLOCK + 1, n_candidates=(3, 0, 1))
    given = made.found, made.own, made.log_odds, made.encoded, made.shortlister
    sizes = [len(block.place) for block in rerank_inputs(*given)]
    assert sizes == [BLOCK, BLOCK, 1]
    assert list(rerank_inputs(*given))[-1].place.max() == len(made.found.rows) - 1


def test_a_document_is_seen_alike_in_any_batch_and_order():
    made = Made(n_docs=BLOCK + 6)
    whole = made.inputs()
    for docs in (np.array([3]), np.array([68, 1, 4]), np.arange(70)[::-1].copy()):
        some = made.of(docs)
        for name in FLOATS:
            assert torch.allclose(getattr(some, name), getattr(whole, name)[docs], atol=1e-5), name
        assert (some.is_window == whole.is_window[docs]).all()
        labels = made.found.rows[whole.place[docs][whole.place[docs] >= 0]]
        found = np.concatenate(
            [made.found.rows[made.found.indptr[d] : made.found.indptr[d + 1]] for d in docs]
        )
        assert (found[some.place[some.place >= 0]] == labels).all()


def test_taken_apart_and_put_together():
    inputs = Made(n_docs=5).inputs()
    parts = [inputs.take(torch.tensor([i])) for i in range(5)]
    for one, other in zip(RerankInputs.concat(parts), inputs, strict=True):
        assert torch.equal(one, other)


@settings(deadline=None)
@given(st.lists(st.integers(0, 70), max_size=6), st.integers(1, 3))
def test_windows_are_merged_evenly_and_none_is_lost(counts, dim):
    indptr = np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)
    windows = np.random.default_rng(0).standard_normal((indptr[-1], dim)).astype(np.float32)
    texts = WindowVectors(np.zeros((len(counts), dim), np.float32), windows, indptr)
    merged, is_window = merged_windows(texts)
    assert merged.shape == (len(counts), N_WINDOWS, dim)
    for text, count in enumerate(counts):
        wanted = slow_windows(windows[indptr[text] : indptr[text + 1]])
        assert is_window[text].sum() == min(count, N_WINDOWS) == len(wanted)
        assert merged[text, : len(wanted)] == pytest.approx(np.array(wanted).reshape(-1, dim), abs=1e-4)
        assert not merged[text, len(wanted) :].any()


def test_windows_of_half_precision_are_summed_in_single():
    windows = np.full((4096, 2), 1.0, np.float16)
    texts = WindowVectors(np.zeros((1, 2), np.float32), windows, np.array([0, 4096]))
    merged = merged_windows(texts)[0]
    assert merged.dtype == np.float32
    assert (merged == 256).all()


def test_of_more_neighbours_the_nearest_are_looked_at():
    made = Made(n_docs=2)
    near = made.found.neighbours
    made.found = replace(made.found, neighbours=Shortlist(near.rows[:, ::-1], near.scores[:, ::-1]))
    assert made.inputs().near[:, :, 0].tolist() == near.scores[:, ::-1][:, :N_NEAR].tolist()


@pytest.mark.parametrize("n_docs", [1, 3])
def test_a_document_is_seen_bit_by_bit_alike_in_small_batches(monkeypatch, n_docs):
    monkeypatch.setitem(DIMS, "dense", 384)  # shorter vectors are multiplied in one way only
    monkeypatch.setitem(DIMS, "words", 512)
    made = Made(("dense", "words"), n_docs=BLOCK)
    some, whole = made.of(np.arange(n_docs)), made.inputs()
    for name in FLOATS:
        assert torch.equal(getattr(some, name), getattr(whole, name)[:n_docs]), name
