from __future__ import annotations

import numpy as np
import pytest

from tests.cases.corpus_t import synthetic
from xmc.data.records import DocumentBatch
from xmc.document_files import FEATURES, WINDOWS, WORDS, DocumentFiles
from xmc.encoders.dual import DualEncoder
from xmc.encoders.lexical import LexicalSettings, LexicalTower
from xmc.encoders.writer import read_features
from xmc.linear import strongest

LABELS, DOCS = synthetic(12, 30)
TEXTS = [text for _, text, _ in DOCS]


@pytest.fixture(scope="module")
def encoder() -> DualEncoder:
    words = LexicalTower.fit([TEXTS], [[t for _, t in LABELS]], LexicalSettings(dim=32, ngram_bits=10))
    return DualEncoder(None, words)


def test_what_is_asked_for_is_kept_of_each_document(tmp_path, encoder):
    files = DocumentFiles(tmp_path, encoder, features=True, words=True)
    for start in (0, 11):
        ids = [i for i, _, _ in DOCS[start : start + 19]][: 11 if start == 0 else 19]
        files.append(encoder.encode(DocumentBatch(ids, TEXTS[start : start + len(ids)], None, None, ids)))
    towers, whole = files.close(), encoder.encode(DocumentBatch(TEXTS, TEXTS, None, None, TEXTS))
    n_features = encoder.lexical.n_features
    assert np.array_equal(towers, whole.towers)
    assert (read_features(tmp_path / FEATURES, n_features) != whole.features).nnz == 0
    words = strongest(whole.features, encoder.lexical.n_words)
    assert (read_features(tmp_path / WORDS, n_features) != words).nnz == 0


def test_what_is_not_asked_for_is_not_written(tmp_path, encoder):
    files = DocumentFiles(tmp_path, encoder, features=False, words=False)
    files.append(encoder.encode(DocumentBatch(TEXTS[:3], TEXTS[:3], None, None, TEXTS[:3])))
    assert files.close().shape == (3, encoder.dim)
    assert not any((tmp_path / name).exists() for name in (FEATURES, WORDS, WINDOWS))
