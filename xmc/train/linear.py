"""Learns the labels' linear classifiers, each against documents for which the index proposes it wrongly.

Squared hinge loss with L2 regularisation by LIBLINEAR (Fan et al., JMLR 2008), in scikit-learn. With all
other documents as wrong ones the time grows with labels times documents. A classifier only has to tell apart
what the index proposes, so these are the wrong documents, as in PECOS (Yu et al., JMLR 2022), and some random
ones, without which it says nothing of what is far away.
"""

from __future__ import annotations

import hashlib
import os
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass
from functools import cache, cached_property
from pathlib import Path
from threading import Thread

import numpy as np
import scipy.sparse as sp

from xmc.artifacts import ArtifactWriter, is_artifact, load_array, load_csr, save_csr
from xmc.errors import ResourceError
from xmc.linear import LinearLabels

FEWEST = 3  # documents of a label that gets a classifier
N_RANDOM = 200  # documents that are wrong for a label because most are
PENALTY, TOLERANCE, PASSES = 1.0, 0.1, 10
SMALLEST = 0.05  # weights below it are cut off
CHUNK = 128  # labels learned, and kept for resuming, at a time
MOST_PROCESSES = 8
WORTH = 100_000  # documents that all labels read together, for which one more process is worth starting
WATCH = 2.0  # seconds between two looks at whether the process that leads is there still
KIND = "classifiers"

Task = tuple[np.ndarray, np.ndarray]  # (n,) documents to read, and for which of them the label is right


@dataclass(frozen=True)
class LinearData:
    """What classifiers are learned from.

    ``store``: a directory with the documents' (n_docs, n_features) words, as `xmc.linear.strongest` gives
    them; ``gold`` (n_docs, n_labels) right labels that may be known; ``proposed`` (n_docs, n_labels): labels
    that the index proposes; ``docs`` (n,) documents that may be read; ``same_text`` (n_labels,): one number
    for all labels with the same text, which are never wrong for each other's documents.
    """

    store: Path
    n_features: int
    gold: sp.csr_matrix
    proposed: sp.csr_matrix
    docs: np.ndarray
    same_text: np.ndarray
    seed: int

    def tasks(self, labels: np.ndarray) -> Iterator[Task]:
        """What each of the (n,) ``labels`` is learned from."""
        gold, proposed, carried = self._by_label
        for label in labels.tolist():
            right, not_wrong = _column(gold, label), _column(carried, int(self.same_text[label]))
            some = np.random.default_rng([self.seed, label]).choice(self.docs, N_RANDOM)
            wrong = np.setdiff1d(np.concatenate([some, _column(proposed, label)]), not_wrong)
            rows = np.union1d(right, wrong)
            yield rows, np.isin(rows, right)

    @cached_property
    def _by_label(self) -> tuple[sp.csc_matrix, sp.csc_matrix, sp.csc_matrix]:
        """``gold`` and ``proposed`` by label, and gold labels by the number of their text."""
        named = (self.gold.data, self.same_text[self.gold.indices], self.gold.indptr)
        carried = sp.csr_matrix(named, self.gold.shape)
        return self.gold.tocsc(), self.proposed.tocsc(), carried.tocsc()

    def identity(self, labels: np.ndarray) -> str:
        """Changes with anything that the classifiers of ``labels`` depend on."""
        numbers = [self.n_features, self.seed, N_RANDOM, PENALTY, TOLERANCE, PASSES, SMALLEST, CHUNK]
        digest = hashlib.sha256(repr(numbers).encode())
        arrays = [load_array(self.store / f"{name}.npy") for name in ("data", "indices", "indptr")]
        for matrix in (self.gold, self.proposed):
            arrays += [matrix.indptr, matrix.indices]
        for array in (*arrays, self.docs, self.same_text, labels):
            digest.update(np.ascontiguousarray(array).data)
        return digest.hexdigest()[:16]


def enough(labels: np.ndarray, gold: sp.csr_matrix) -> np.ndarray:
    """Those of the (n,) ``labels`` that have documents enough in ``gold`` (n_docs, n_labels)."""
    return labels[np.bincount(gold.indices, minlength=gold.shape[1])[labels] >= FEWEST]


def learn_linear(
    data: LinearData, labels: np.ndarray, work: Path, jobs: int, tick: Callable[[int], object]
) -> LinearLabels:
    """Classifiers of the ``labels`` (n,), in ``jobs`` processes.

    What was learned before a run was killed is kept in ``work``. ``tick`` gets how many labels are done.
    """
    folder = work / data.identity(labels)
    folder.mkdir(parents=True, exist_ok=True)
    chunks = [labels[start : start + CHUNK] for start in range(0, len(labels), CHUNK)]
    for path, part, learned in _missing(data, folder, chunks, jobs):
        with ArtifactWriter(path, KIND, built_by="xmc train") as writer:
            save_csr(writer.path / "weights.npz", learned)
        tick(part)
    parts = [load_csr(_path(folder, i) / "weights.npz") for i in range(len(chunks))]
    return _joined(parts, labels, data.gold.shape[1], data.n_features)


def _missing(
    data: LinearData, folder: Path, chunks: Sequence[np.ndarray], jobs: int
) -> Iterator[tuple[Path, int, sp.csr_matrix]]:
    """Where each chunk of labels that was not learned yet belongs, its size, (n, n_features + 1) weights.

    Raises: ResourceError where the system ended one of the processes.
    """
    from joblib import Parallel, delayed

    wanted = [i for i in range(len(chunks)) if not is_artifact(_path(folder, i))]
    n_read = data.gold.nnz + data.proposed.nnz + N_RANDOM * sum(len(chunks[i]) for i in wanted)
    jobs = max(1, min(jobs, MOST_PROCESSES, len(wanted), n_read // WORTH))
    known = data.store, data.n_features, os.getpid()
    work = (delayed(_learned)(*known, list(data.tasks(chunks[i]))) for i in wanted)
    try:
        for i, learned in zip(wanted, Parallel(n_jobs=jobs, return_as="generator")(work), strict=True):
            yield _path(folder, i), len(chunks[i]), learned
    except BrokenProcessPool:
        raise ResourceError(
            f"one of {jobs} processes that learn classifiers was ended, mostly for want of memory; what was "
            "learned is kept: run the command again, with fewer processes (threads=N)"
        ) from None
    finally:
        if jobs > 1:
            _let_go()


def _let_go() -> None:
    """End the processes, which would wait for more work and hold memory, and whose CPU time counts then."""
    from joblib.externals.loky import get_reusable_executor

    get_reusable_executor().shutdown(wait=True)


def _path(folder: Path, chunk: int) -> Path:
    return folder / f"labels-{chunk:06}"


def _learned(store: Path, n_features: int, leader: int, tasks: Sequence[Task]) -> sp.csr_matrix:
    """(n_tasks, n_features + 1) weights, the last of each row its bias.

    Runs in a process of its own, which ends with the process ``leader``.
    """
    _end_with(leader)
    parts = [load_array(store / f"{name}.npy") for name in ("data", "indices", "indptr")]
    words = sp.csr_matrix(tuple(parts), (len(parts[2]) - 1, n_features), copy=False)
    rows = [_classifier(words[docs], right) for docs, right in tasks]
    indptr = np.concatenate([[0], np.cumsum([len(columns) for columns, _ in rows])])
    columns = np.concatenate([columns for columns, _ in rows])
    values = np.concatenate([values for _, values in rows])
    return sp.csr_matrix((values, columns, indptr), (len(rows), n_features + 1))


@cache
def _end_with(leader: int) -> None:
    """End this process soon after the other one, which may be killed: its pipes alone would not tell."""
    if os.getpid() != leader:
        Thread(target=_watch, args=(leader,), daemon=True).start()


def _watch(leader: int) -> None:
    while os.getppid() == leader:
        time.sleep(WATCH)
    os._exit(1)


def _classifier(words: sp.csr_matrix, right: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Columns and float32 values of one label's weights, the bias behind them."""
    from sklearn.exceptions import ConvergenceWarning
    from sklearn.svm import LinearSVC

    n_features = words.shape[1]
    if right.all() or not words.nnz:  # there is nothing to tell apart, or nothing to tell it by
        return np.array([n_features]), np.zeros(1, np.float32)
    used = np.flatnonzero(np.bincount(words.indices, minlength=n_features))
    place = np.zeros(n_features, np.int32)
    place[used] = np.arange(len(used))
    compact = sp.csr_matrix((words.data, place[words.indices], words.indptr), (len(right), len(used)))
    machine = LinearSVC(C=PENALTY, dual="auto", tol=TOLERANCE, max_iter=PASSES, random_state=0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # so many passes are enough
        machine.fit(compact, right)
    weights = machine.coef_[0]
    kept = np.abs(weights) > SMALLEST
    columns = np.append(used[kept], n_features)
    return columns, np.append(weights[kept], machine.intercept_).astype(np.float32)


def _joined(
    parts: Sequence[sp.csr_matrix], labels: np.ndarray, n_labels: int, n_features: int
) -> LinearLabels:
    """All labels' classifiers out of those of ``labels`` (n,), in pieces."""
    learned = np.zeros(n_labels, bool)
    learned[labels] = True
    if not parts:
        none = sp.csr_matrix((n_labels, n_features), dtype=np.float32)
        return LinearLabels(none, np.zeros(n_labels, np.float32), learned)
    found = sp.vstack(parts, format="csr")
    bias = np.zeros(n_labels, np.float32)
    bias[labels] = found[:, n_features].toarray().ravel()
    found = found[:, :n_features].tocsr()
    counts = np.zeros(n_labels, np.int64)
    counts[labels] = np.diff(found.indptr)
    indptr = np.concatenate([[0], np.cumsum(counts)])
    weights = sp.csr_matrix((found.data, found.indices, indptr), (n_labels, n_features))
    return LinearLabels(weights, bias, learned)


def _column(matrix: sp.csc_matrix, column: int) -> np.ndarray:
    """Rows of the entries in a column."""
    return matrix.indices[matrix.indptr[column] : matrix.indptr[column + 1]]
