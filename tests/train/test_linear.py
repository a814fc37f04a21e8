from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse as sp
from joblib.externals.loky import reusable_executor

from tests.train.made import N_DOCS, N_FEATURES, N_LABELS, made
from xmc.encoders.writer import FeatureWriter
from xmc.errors import ResourceError
from xmc.linear import LinearLabels, strongest
from xmc.train import linear as learning
from xmc.train.linear import FEWEST, LinearData, Task, enough, learn_linear

DATA = made(n_dev=0)
CLEAR = np.where(np.arange(N_FEATURES) < 2 * N_LABELS, 1, 0.2).astype(np.float32)
WORDS = strongest(DATA.features.multiply(CLEAR).tocsr(), N_FEATURES)  # telling words tell more here
ALL = np.arange(N_LABELS)
N_LEARNED_FROM = 300  # documents; the others are new to the classifiers


def data(store: Path, proposed: sp.csr_matrix | None = None, same_text: np.ndarray = ALL) -> LinearData:
    writer = FeatureWriter(store)
    writer.append(WORDS)
    writer.close()
    gold = DATA.gold.copy()
    gold.data[gold.indptr[N_LEARNED_FROM] :] = 0
    gold.eliminate_zeros()
    proposed = sp.csr_matrix((N_DOCS, N_LABELS), dtype=bool) if proposed is None else proposed
    return LinearData(store, N_FEATURES, gold, proposed, np.arange(N_LEARNED_FROM), same_text, 0)


def learned(data: LinearData, work: Path, labels: np.ndarray = ALL, jobs: int = 1) -> LinearLabels:
    return learn_linear(data, labels, work, jobs, lambda n: None)


def same(one: LinearLabels, other: LinearLabels) -> bool:
    weights = (one.weights != other.weights).nnz == 0
    return weights and np.array_equal(one.bias, other.bias) and np.array_equal(one.learned, other.learned)


def test_new_documents_get_their_labels(tmp_path):
    known = learned(data(tmp_path / "words"), tmp_path / "work")
    words, gold = WORDS[N_LEARNED_FROM:], DATA.gold[N_LEARNED_FROM:]
    of_doc, rows = np.divmod(np.arange(gold.shape[0] * N_LABELS), N_LABELS)
    found = known.scores(words, of_doc, rows).reshape(gold.shape)
    best, right = found.argmax(axis=1), gold.toarray() > 0
    assert right[np.arange(len(best)), best].mean() > 0.9
    assert found[right].mean() > 1 > found[~right].mean()


def test_labels_that_were_not_wanted_have_none(tmp_path):
    known = learned(data(tmp_path / "words"), tmp_path / "work", ALL[10:20])
    assert np.flatnonzero(known.learned).tolist() == list(range(10, 20))
    assert not known.weights[:10].nnz
    assert known.weights[10:20].nnz


def test_only_labels_with_documents_enough():
    gold = sp.csr_matrix(np.tri(FEWEST + 2, dtype=np.float32))  # label i has FEWEST + 2 - i documents
    labels = np.array([0, 2, 3, FEWEST + 1])
    assert enough(labels, gold).tolist() == [0, 2]


def test_wrong_documents_are_those_that_the_index_proposes_and_some_others(tmp_path, monkeypatch):
    monkeypatch.setattr(learning, "N_RANDOM", 5)
    proposed = sp.csr_matrix((np.ones(3, bool), ([1, 2, 350], [4, 4, 4])), (N_DOCS, N_LABELS))
    known = data(tmp_path / "words", proposed)
    rows, right = next(known.tasks(np.array([4])))
    gold = np.flatnonzero(known.gold[:, [4]].toarray().ravel())
    assert rows[right].tolist() == gold.tolist()
    assert set(rows[~right]) >= {1, 2, 350} - set(gold)
    assert len(rows) <= len(gold) + 3 + 5
    assert set(rows) - {350} <= set(range(N_LEARNED_FROM))


def test_documents_of_a_label_with_the_same_text_are_never_wrong(tmp_path):
    same_text = ALL.copy()
    same_text[4] = 3
    everywhere = sp.csr_matrix(np.ones((N_DOCS, N_LABELS), bool))
    known = data(tmp_path / "words", everywhere, same_text)
    rows, right = next(known.tasks(np.array([4])))
    namesake = np.flatnonzero(known.gold[:, [3]].toarray().ravel())
    gold = np.flatnonzero(known.gold[:, [4]].toarray().ravel())
    assert not set(rows[~right]) & set(namesake)
    assert set(rows) == set(range(N_DOCS)) - (set(namesake) - set(gold))


def test_a_label_that_every_document_has_is_learned_without_a_wrong_one(tmp_path):
    known = data(tmp_path / "words")
    gold = sp.lil_matrix(known.gold)
    gold[:N_LEARNED_FROM, 7] = 1
    every = LinearData(known.store, N_FEATURES, gold.tocsr(), known.proposed, known.docs, ALL, 0)
    found = learned(every, tmp_path / "work", np.array([7]))
    assert found.learned[7]
    assert (found.weights.nnz, found.bias[7]) == (0, 0)


def test_documents_without_a_word_teach_nothing(tmp_path):
    empty = FeatureWriter(tmp_path / "empty")
    empty.append(sp.csr_matrix((N_DOCS, N_FEATURES), dtype=np.float32))
    empty.close()
    known = replace(data(tmp_path / "words"), store=tmp_path / "empty")
    found = learned(known, tmp_path / "work")
    assert found.learned.all()
    assert not found.weights.nnz
    assert not found.bias.any()


class Long(LinearData):
    """The same, of which every chunk takes a while."""

    def tasks(self, labels: np.ndarray) -> Iterator[Task]:
        return iter([*super().tasks(labels)] * 100)


def test_a_process_that_is_ended_is_named(tmp_path, monkeypatch):
    def end_others(n: int) -> None:
        for process in list(reusable_executor._executor._processes):
            with suppress(ProcessLookupError):  # it may have ended since another part was done
                os.kill(process, signal.SIGKILL)

    monkeypatch.setattr(learning, "CHUNK", 4)
    monkeypatch.setattr(learning, "WORTH", 1)
    known = Long(**vars(data(tmp_path / "words")))
    with pytest.raises(ResourceError, match="one of 2 processes that learn classifiers was ended"):
        learn_linear(known, ALL, tmp_path / "work", 2, end_others)


LEAD = """
import sys
from pathlib import Path
from joblib.externals.loky import reusable_executor
from tests.train.test_linear import ALL, Long, data, learn_linear, learning
learning.CHUNK, learning.WORTH = 4, 1
def tell(n):
    print(*reusable_executor._executor._processes, flush=True)
folder = Path(sys.argv[1])
learn_linear(Long(**vars(data(folder / "words"))), ALL, folder / "work", 2, tell)
"""


def test_the_others_end_when_the_first_process_is_killed(tmp_path):
    with subprocess.Popen([sys.executable, "-c", LEAD, tmp_path], stdout=subprocess.PIPE, text=True) as first:
        others = [Path("/proc") / pid for pid in first.stdout.readline().split()]
        first.kill()
    assert len(others) == 2
    end = time.monotonic() + 60
    while any(other.exists() for other in others) and time.monotonic() < end:
        time.sleep(0.5)
    assert not any(other.exists() for other in others)


def test_killed_and_run_again_it_is_the_same_and_nothing_is_learned_twice(tmp_path, monkeypatch):
    monkeypatch.setattr(learning, "CHUNK", 16)
    whole = learned(data(tmp_path / "words"), tmp_path / "other")
    seen: list[int] = []

    def cut_off(n: int) -> None:
        seen.append(n)
        if len(seen) == 2:
            raise KeyboardInterrupt

    known = data(tmp_path / "words")
    with pytest.raises(KeyboardInterrupt):
        learn_linear(known, ALL, tmp_path / "work", 1, cut_off)
    again: list[int] = []
    found = learn_linear(known, ALL, tmp_path / "work", 1, again.append)
    assert seen == [16, 16]
    assert again == [16, 12]
    assert same(found, whole)


def test_processes_learn_what_one_learns(tmp_path, monkeypatch):
    monkeypatch.setattr(learning, "CHUNK", 20)
    monkeypatch.setattr(learning, "WORTH", 1)
    known = data(tmp_path / "words")
    assert same(learned(known, tmp_path / "one"), learned(known, tmp_path / "two", jobs=2))


def test_what_was_learned_with_other_features_behind_the_words_is_not_taken_up(tmp_path):
    known = data(tmp_path / "words")
    learned(known, tmp_path / "work")
    more = replace(known, n_features=N_FEATURES + 5)
    assert same(learned(more, tmp_path / "work"), learned(more, tmp_path / "other"))


def test_what_was_learned_of_other_data_is_not_taken_up(tmp_path):
    one = data(tmp_path / "words")
    learned(one, tmp_path / "work")
    gold = one.gold.copy()
    gold.data[:5] = 0
    gold.eliminate_zeros()
    other = LinearData(one.store, N_FEATURES, gold, one.proposed, one.docs, ALL, 0)
    assert one.identity(ALL) != other.identity(ALL)
    assert not same(learned(one, tmp_path / "work"), learned(other, tmp_path / "work"))
