from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from xmc.artifacts import save_array, save_csr
from xmc.encoders.lexical import unit_rows
from xmc.errors import ArtifactError
from xmc.index import matcher
from xmc.index.matcher import LabelMatcher, Matches, best_columns

N_FEATURES = 40
STARTS = np.array([0, 1, 1, 4, 5, 5])  # label 1 and 4 have no name, label 2 has three


def rows(n: int, seed: int, density: float = 0.2) -> sp.csr_matrix:
    drawn = sp.random(n, N_FEATURES, density, "csr", np.float32, np.random.default_rng(seed))
    return unit_rows(drawn)


NAMES, DOCS, LEADS = rows(5, 1), rows(7, 2), rows(7, 3)


def joined(found: list[Matches]) -> list[np.ndarray]:
    return [np.concatenate(parts) for parts in zip(*(m[1:] for m in found), strict=True)]


def naive(docs: np.ndarray, name_score) -> np.ndarray:
    out = np.zeros((len(docs), len(STARTS) - 1))
    for i, doc in enumerate(docs):
        for label in range(len(STARTS) - 1):
            names = NAMES.toarray()[STARTS[label] : STARTS[label + 1]]
            out[i, label] = max((name_score(doc, name) for name in names), default=0)
    return out


def test_scores_are_those_of_each_labels_best_name():
    cosine, containment, lead = joined(list(LabelMatcher(NAMES, STARTS).blocks(DOCS, LEADS)))
    assert cosine == pytest.approx(naive(DOCS.toarray(), lambda d, n: d @ n), abs=1e-6)
    assert lead == pytest.approx(naive(LEADS.toarray(), lambda d, n: d @ n), abs=1e-6)
    assert containment == pytest.approx(naive(DOCS.toarray(), lambda d, n: (n**2)[d != 0].sum()), abs=1e-6)
    assert containment.max() <= 1 + 1e-6


def test_a_block_more_or_less_changes_nothing(monkeypatch):
    known = LabelMatcher(NAMES, STARTS)
    whole = joined(list(known.blocks(DOCS, LEADS)))
    monkeypatch.setattr(matcher, "BLOCK", 30)
    found = list(known.blocks(DOCS, LEADS))
    assert [m.block for m in found] == [slice(0, 2), slice(2, 4), slice(4, 6), slice(6, 7)]
    for one, other in zip(joined(found), whole, strict=True):
        assert (one == other).all()


def test_labels_that_all_have_one_name():
    cosine = joined(list(LabelMatcher(NAMES, np.arange(6)).blocks(DOCS, LEADS)))[0]
    assert cosine == pytest.approx((DOCS @ NAMES.T).toarray(), abs=1e-6)


def test_no_label_has_a_name():
    none = LabelMatcher(NAMES[:0], np.zeros(4, np.int64))
    assert none.n_labels == 3
    assert not joined(list(none.blocks(DOCS, LEADS)))[0].any()


def test_names_of_a_label():
    known = LabelMatcher(NAMES, STARTS)
    assert (known.names_of(2) != NAMES[1:4]).nnz == 0
    assert known.names_of(1).shape == (0, N_FEATURES)


def test_saved_and_loaded(tmp_path):
    LabelMatcher(NAMES, STARTS).save(tmp_path)
    again = LabelMatcher.load(tmp_path)
    assert (again.features != NAMES).nnz == 0
    assert again.starts.tolist() == STARTS.tolist()


@pytest.mark.parametrize(
    ("starts", "names", "file"),
    [
        (STARTS, NAMES[:4], "starts"),
        (STARTS + 1, NAMES, "starts"),
        (np.array([0, 4, 1, 5]), NAMES, "starts"),
        (STARTS.astype(float), NAMES, "starts"),
        (STARTS.reshape(2, 3), NAMES, "starts"),
        (STARTS[:0], NAMES, "starts"),
        (STARTS, NAMES * np.float32(np.nan), "names"),
        (STARTS, NAMES * np.float32(1e30), "names"),
        (STARTS, NAMES.astype(np.float64), "names"),
        (STARTS, NAMES > 0, "names"),
    ],
)
def test_what_is_no_matcher_is_refused_by_name(tmp_path, starts, names, file):
    save_csr(tmp_path / "names.npz", names)
    save_array(tmp_path / "starts.npy", starts)
    with pytest.raises(ArtifactError, match=rf"{file}\.np"):
        LabelMatcher.load(tmp_path)


def by_hand(scores: np.ndarray, k: int, allowed: np.ndarray) -> list[tuple[int, int]]:
    found = []
    for i, row in enumerate(scores):
        columns = [j for j in range(len(row)) if allowed[j] and row[j] > 0]
        found += [(i, j) for j in sorted(columns, key=lambda j: (-row[j], j))[:k]]
    return found


SCORES = hnp.arrays(
    np.float32, st.tuples(st.integers(0, 5), st.integers(0, 7)), elements=st.sampled_from([0, 0.25, 0.5, 1])
)


@given(SCORES, st.integers(0, 9), st.integers(0, 2**7 - 1))
def test_best_columns_are_those_of_a_sort(scores, k, bits):
    allowed = np.array([bits >> j & 1 for j in range(scores.shape[1])], bool)
    found = best_columns(scores, k, allowed)
    assert list(zip(*(part.tolist() for part in found), strict=True)) == by_hand(scores, k, allowed)


@given(SCORES, st.integers(1, 4))
def test_best_columns_of_a_document_do_not_depend_on_the_others(scores, k):
    allowed = np.ones(scores.shape[1], bool)
    of_doc, columns = best_columns(scores, k, allowed)
    for i in range(len(scores)):
        assert columns[of_doc == i].tolist() == best_columns(scores[i : i + 1], k, allowed)[1].tolist()


def test_replaced_names_stand_where_the_old_ones_stood():
    names = sp.csr_matrix(np.arange(1, 13, dtype=np.float32).reshape(4, 3) / 100)
    known = LabelMatcher(names, np.array([0, 2, 2, 4]))  # the second label has no name
    new = sp.csr_matrix(np.arange(1, 10, dtype=np.float32).reshape(3, 3) / 10)
    changed = known.replaced(np.array([4, 0]), new, np.array([0, 1, 3]), 5)
    assert changed.starts.tolist() == [0, 2, 2, 4, 4, 5]
    for label, wanted in [(0, new[1:]), (1, names[:0]), (2, names[2:]), (3, names[:0]), (4, new[:1])]:
        assert np.array_equal(changed.names_of(label).toarray(), wanted.toarray())
    assert known.n_labels == 3
    same = known.replaced(np.zeros(0, int), names[:0], np.zeros(1, int), 3)
    assert (same.features != names).nnz == 0
