from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp

from xmc.data.labels import LabelSet
from xmc.data.records import DocumentBatch, Label
from xmc.plan.sample import Sampler, sample_source
from xmc.source import Source


def seen(n_docs: int, n: int, size: int = 30) -> Sampler:
    sampler = Sampler(n)
    for start in range(0, n_docs, size):
        names = [str(i) for i in range(start, min(start + size, n_docs))]
        sampler.see(DocumentBatch(names, [f"text {x}" for x in names], None, None, names))
    return sampler


@pytest.mark.parametrize("n_docs", [0, 7, 20, 21, 1000])
def test_a_sample_is_spread_evenly_and_of_bounded_size(n_docs):
    rows, batch = seen(n_docs, 10).documents(10)
    assert batch.ids == [str(row) for row in rows]
    assert len(rows) == min(n_docs, 10)
    assert (np.diff(rows) <= max(1, n_docs // 4)).all()
    if n_docs:
        assert rows[0] == 0
        assert rows[-1] >= n_docs * 0.8 - 1


def test_a_source_of_a_sample_has_its_labels_and_some_others():
    labels = LabelSet.from_records(Label(f"L{i}", f"label {i}") for i in range(100))
    gold = sp.csr_matrix((np.ones(60, np.float32), (np.arange(60), np.arange(60) + 40)), (60, 100))
    numbers = np.arange(60, dtype=np.uint64)
    source = Source(labels, None, gold, [str(i) for i in range(60)], fingerprints=numbers)
    found = sample_source(source, seen(60, 20), seed=0, n_docs=20, n_labels=50)
    assert len(found.labels) == 50
    assert found.gold.shape == (20, 50)
    column = {found.labels.id(i): i for i in range(50)}
    wanted = [column[f"L{int(doc) + 40}"] for doc in found.ids]
    assert found.gold.indices.tolist() == wanted
    assert found.fingerprints.tolist() == [int(doc) for doc in found.ids]
    assert [batch.ids for batch in found.batches()] == [found.ids]
