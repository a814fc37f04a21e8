from __future__ import annotations

from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse as sp

from tests.cases.corpus_t import docs_file, index, labels_file, synthetic
from xmc import taught as teaching
from xmc.data.records import DocumentBatch
from xmc.document_files import WORDS, DocumentFiles
from xmc.encoders.dual import DualEncoder
from xmc.encoders.lexical import LexicalSettings, LexicalTower
from xmc.index.base import LabelIndex
from xmc.index.kinds import make_index
from xmc.model import Model
from xmc.taught import Taught, learned_from
from xmc.train.linear import FEWEST, N_RANDOM

LABELS, DOCS = synthetic(15, 80)


@pytest.fixture(scope="module")
def taught(tmp_path_factory) -> Taught:
    folder: Path = tmp_path_factory.mktemp("taught")
    texts, names = [t for _, t, _ in DOCS], [t for _, t in LABELS]
    words = LexicalTower.fit([texts], [names], LexicalSettings(dim=64, ngram_bits=10))
    encoder, ids = DualEncoder(None, words), [i for i, _, _ in DOCS]
    files = DocumentFiles(folder, encoder, features=False, words=True)
    files.append(encoder.encode(DocumentBatch(ids, texts, None, None, ids)))
    towers, rows = files.close(), {label: row for row, (label, _) in enumerate(LABELS)}
    pairs = [(doc, rows[label]) for doc, (_, _, gold) in enumerate(DOCS) for label in gold]
    gold = sp.csr_matrix((np.ones(len(pairs), np.float32), tuple(np.transpose(pairs))), (80, 15))
    active, same = np.ones(15, bool), np.arange(15)
    work, docs, bar = folder / "work", np.arange(80), lambda *_: nullcontext(abs)
    return Taught(encoder, folder / WORDS, towers, gold, docs, active, same, 0, work, bar)


def labels_index(taught: Taught) -> LabelIndex:
    made = make_index("exact", taught.encoder.dim + 1, "ip")
    vectors = taught.encoder.lexical.encode([t for _, t in LABELS])
    made.add(np.arange(15), np.hstack([vectors, np.zeros((15, 1), np.float32)]))
    return made


def test_every_active_label_with_documents_enough_gets_a_classifier(taught):
    index, active = labels_index(taught), np.arange(15) != 4
    found = replace(taught, active=active).classifiers(index)
    enough = np.bincount(taught.gold.indices, minlength=15) >= FEWEST
    assert enough[4]
    assert found.learned.tolist() == (enough & active).tolist()
    assert found.weights[found.learned.nonzero()[0]].getnnz(axis=1).all()


def test_those_that_are_there_stay(taught):
    index = labels_index(taught)
    few = replace(taught, active=np.arange(15) < 6).classifiers(index)
    found = taught.classifiers(index, few)
    assert (found.weights[:6] != few.weights[:6]).nnz == 0
    assert found.learned[6:].any()
    assert taught.classifiers(index, found) is found


def test_the_index_is_asked_for_so_many_documents_at_most(taught, monkeypatch):
    monkeypatch.setattr(teaching, "MOST_ASKED", 10)
    monkeypatch.setattr(teaching, "N_PROPOSED", 3)
    proposed = replace(taught, docs=np.arange(0, 80, 2))._proposed(labels_index(taught))
    each = np.diff(proposed.indptr)
    assert sorted(each)[-11:] == [0] + [3] * 10
    assert not each[1::2].any()


def test_how_much_is_learned_from():
    gold = sp.csr_matrix(np.tri(FEWEST + 1, dtype=np.float32)[:, :2])  # FEWEST + 1 and FEWEST documents
    n_docs = FEWEST + 1
    proposed = teaching.N_PROPOSED * n_docs
    assert learned_from(gold) == (2, 2 * FEWEST + 1 + proposed + 2 * N_RANDOM)
    assert learned_from(gold[:2]) == (0, teaching.N_PROPOSED * 2)


def test_a_model_has_classifiers_unless_it_shall_not(tmp_path):
    files = labels_file(tmp_path / "labels.jsonl", LABELS), docs_file(tmp_path / "docs.jsonl", DOCS)
    model = Model.load(index(tmp_path / "with", *files))
    assert model.linear is not None
    assert model.linear.learned.any()
    without = Model.load(index(tmp_path / "without", *files, more=("preset=fast", "classifiers=false")))
    assert without.linear is None
