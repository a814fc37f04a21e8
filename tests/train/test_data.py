from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
import scipy.sparse as sp
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.train.made import N_DOCS, N_LABELS, made
from xmc.train.data import mean_ndcg, mean_psp, namesakes

QUICK = settings(max_examples=50, deadline=None)


def brute_force(ranked: np.ndarray, gold: np.ndarray) -> float:
    found, k = [], ranked.shape[1]
    for row, wanted in zip(ranked, gold, strict=True):
        if not wanted.any():
            continue
        gain = sum(1 / math.log2(place + 2) for place, label in enumerate(row) if wanted[label])
        best = sum(1 / math.log2(place + 2) for place in range(min(k, int(wanted.sum()))))
        found.append(gain / best)
    return sum(found) / len(found) if found else 0.0


@QUICK
@given(st.integers(0, 10_000), st.integers(1, 6), st.integers(1, 9), st.sampled_from([0.0, 0.2, 0.7, 1.0]))
def test_mean_ndcg_by_brute_force(seed, n_docs, n_labels, share):
    rng = np.random.default_rng(seed)
    gold = rng.random((n_docs, n_labels)) < share
    k = rng.integers(1, min(5, n_labels) + 1)
    ranked = np.array([rng.permutation(n_labels)[:k] for _ in range(n_docs)])
    assert mean_ndcg(ranked, sp.csr_matrix(gold, dtype=np.float32)) == pytest.approx(
        brute_force(ranked, gold)
    )


def test_mean_ndcg_of_the_best_and_the_worst_ranking():
    gold = sp.csr_matrix(np.array([[1, 0, 1, 0], [0, 0, 0, 1], [0, 0, 0, 0]], np.float32))
    best, worst = np.array([[2, 0], [3, 1], [0, 1]]), np.array([[1, 3], [0, 1], [2, 3]])
    assert mean_ndcg(best, gold) == 1
    assert mean_ndcg(worst, gold) == 0


def test_documents_without_gold_labels_do_not_count():
    gold = sp.csr_matrix((3, 4), dtype=np.float32)
    assert mean_ndcg(np.zeros((3, 2), np.int64), gold) == 0


def test_frequency_counts_training_documents_alone():
    data = made()
    everyone = replace(data, gold=sp.csr_matrix(np.ones((N_DOCS, N_LABELS), np.float32)))
    assert (everyone.frequency == len(data.docs)).all()
    assert (data.frequency == np.asarray(data.gold.sum(axis=0)).ravel()).all()


def test_the_dense_vectors_of_documents_are_copies(tmp_path):
    data = made()
    np.save(tmp_path / "towers.npy", np.hstack([data.towers, np.ones((N_DOCS, 3), np.float32)]))
    mapped = replace(data, towers=np.load(tmp_path / "towers.npy", mmap_mode="r"))
    found = mapped.dense_of(np.array([7, 3]))
    assert torch.equal(found, torch.from_numpy(data.towers[[7, 3]]))
    found += 1  # of its own
    assert (mapped.towers[7, :6] == data.towers[7]).all()


def test_namesakes_are_the_labels_with_the_text_of_a_gold_one():
    gold = sp.csr_matrix(np.array([[1, 0, 0, 0, 0], [0, 1, 0, 0, 1], [0, 0, 0, 0, 0]], np.float32))
    found = namesakes(gold, np.array([0, 1, 0, 3, 1]), np.array([0, 2, 3, 4]))
    assert found.tolist() == [[True, True, False, False], [False, False, False, True], [False] * 4]


@QUICK
@given(st.integers(0, 10_000), st.integers(1, 6), st.integers(1, 9), st.sampled_from([0.0, 0.2, 0.7, 1.0]))
def test_mean_psp_by_brute_force(seed, n_docs, n_labels, share):
    rng = np.random.default_rng(seed)
    gold, weights = rng.random((n_docs, n_labels)) < share, 1 + rng.random(n_labels)
    k = int(rng.integers(1, min(5, n_labels) + 1))
    ranked = np.array([rng.permutation(n_labels)[:k] for _ in range(n_docs)])
    found = sum(
        weights[label] for row, wanted in zip(ranked, gold, strict=True) for label in row[wanted[row]]
    )
    best = sum(np.sort(weights[wanted])[::-1][:k].sum() for wanted in gold)
    psp = mean_psp(ranked, sp.csr_matrix(gold, dtype=np.float32), weights)
    assert psp == pytest.approx(found / best if best else 0.0)
