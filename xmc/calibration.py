"""Calibration: the curves of a model with the sample of held-out documents that thresholds are chosen on.

The curves that a model uses are fitted on all held-out documents. In the sample each document has the
probabilities of curves that were fitted without it: a threshold chosen on the very pairs that bent the
curves would promise too much.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import numpy as np
import scipy.sparse as sp

from xmc.artifacts import load_array, load_csr, load_json, save_array, save_csr, save_json
from xmc.calibrate import Calibrator
from xmc.errors import ArtifactError, SettingError
from xmc.memory import wide
from xmc.mix import ENOUGH
from xmc.rules import Rule
from xmc.thresholds import (
    best_threshold_f1_at_k,
    best_threshold_micro_f1,
    conformal_threshold,
    threshold_for_precision,
    thresholds_macro_f1,
)

DEPTH = 200  # candidates of a document in the sample, the best ones
N_FOLDS = 5
CURVES, PROBABILITIES, GOLD, FREQUENCY = "curves.json", "probabilities.npz", "gold.npz", "frequency.npy"
REBUILD = "rebuild the model"


class _Pairs(NamedTuple):
    """Pairs as `xmc.thresholds` wants them, (n_pairs,) each, and their gold by document and by label."""

    probabilities: np.ndarray
    right: np.ndarray
    of_doc: np.ndarray
    rows: np.ndarray
    n_gold: np.ndarray
    n_gold_of_label: np.ndarray


@dataclass(frozen=True)
class HeldOutSample:
    """The best ``DEPTH`` candidates of each held-out document.

    ``probabilities`` (n_docs, n_labels) float32, above 0 and below 1 where a label is a candidate; ``gold``
    (n_docs, n_labels) float32 ones; ``frequency`` (n_labels,) int64 the documents of each label in the fit,
    which were fewer than the model has.
    """

    probabilities: sp.csr_matrix
    gold: sp.csr_matrix
    frequency: np.ndarray

    @classmethod
    def of(
        cls,
        of_doc: np.ndarray,
        rows: np.ndarray,
        probabilities: np.ndarray,
        gold: sp.csr_matrix,
        frequency: np.ndarray,
        hidden: np.ndarray | None,
    ) -> HeldOutSample:
        """The best of the pairs (n_pairs,); arguments as in `Calibration.fit`."""
        shown = np.ones(gold.shape[1], bool) if hidden is None else ~hidden
        kept = np.flatnonzero(shown[rows])
        kept = kept[_places(of_doc[kept], probabilities[kept]) < DEPTH]
        pairs = sp.csr_matrix((probabilities[kept], (of_doc[kept], rows[kept])), gold.shape)
        ones = sp.csr_matrix((gold > 0).astype(np.float32))
        ones.data[~shown[ones.indices]] = 0
        ones.eliminate_zeros()
        ones.sort_indices()
        return cls(pairs, ones, frequency.astype(np.int64))

    def threshold(
        self, rule: Rule, top_k: int, allowed: np.ndarray | None = None
    ) -> float | tuple[float, ...]:
        """The threshold that ``rule`` chooses where a document gets at most its ``top_k`` best candidates.

        For ``macro_f1`` one for each bin of label frequency. ``allowed`` (n_labels,) bool: the labels that
        count at all, None: all.

        Raises: SettingError where the documents cannot give what is asked for; it names what they can.
        """
        pairs = self._pairs(top_k, allowed)
        p, right, of_doc, rows, n_gold, n_gold_of_label = pairs
        if not right.any():
            raise SettingError(
                f"threshold={rule}: no held-out document has a right candidate among the labels that may be "
                "suggested; give a number"
            )
        if rule.name == "micro_f1":
            return best_threshold_micro_f1(p, right, n_gold)
        if rule.name == "macro_f1":
            return tuple(thresholds_macro_f1(p, right, rows, self.frequency, n_gold_of_label).tolist())
        if rule.name == "f1":
            return best_threshold_f1_at_k(p, right, of_doc, n_gold, int(rule.value))
        if rule.name == "precision":
            return threshold_for_precision(p, right, rule.value)
        try:
            return conformal_threshold(p, right, of_doc, n_gold, rule.value)
        except SettingError as error:
            more = ", or for a larger top_k" if top_k < DEPTH else ""
            raise SettingError(f"{error}{more}") from None

    def suggested(self, top_k: int) -> tuple[np.ndarray, np.ndarray]:
        """(n,) float32 probabilities of each document's best ``top_k`` candidates, and (n,) bool: right."""
        pairs = self._pairs(top_k, None)
        return pairs.probabilities, pairs.right

    def _pairs(self, top_k: int, allowed: np.ndarray | None) -> _Pairs:
        """What is left of the sample among ``allowed`` labels and the ``top_k`` best of each document."""
        may = np.ones(self.gold.shape[1], bool) if allowed is None else allowed
        of_doc, rows = _coordinates(self.probabilities)
        gold_docs, gold_rows = _coordinates(self.gold)
        kept = np.flatnonzero(may[rows])
        kept = kept[_places(of_doc[kept], self.probabilities.data[kept]) < top_k]
        of_doc, rows, counted = of_doc[kept], rows[kept], may[gold_rows]
        return _Pairs(
            self.probabilities.data[kept],
            is_gold(self.gold, of_doc, rows),
            of_doc,
            rows,
            np.bincount(gold_docs[counted], minlength=self.gold.shape[0]),
            np.bincount(gold_rows[counted], minlength=len(may)),
        )

    def widened(self, n_labels: int) -> HeldOutSample:
        """The same sample where labels without documents have come to make ``n_labels``."""
        more = np.zeros(n_labels - len(self.frequency), np.int64)
        frequency = np.concatenate([self.frequency, more])
        return HeldOutSample(wide(self.probabilities, n_labels), wide(self.gold, n_labels), frequency)

    def save(self, directory: Path) -> None:
        """Write the three arrays into an existing directory."""
        save_csr(directory / PROBABILITIES, self.probabilities)
        save_csr(directory / GOLD, self.gold)
        save_array(directory / FREQUENCY, self.frequency)

    @classmethod
    def load(cls, directory: Path, n_labels: int) -> HeldOutSample:
        """Read what ``save`` wrote. Raises ArtifactError where an array is not what it should be."""
        probabilities, gold = load_csr(directory / PROBABILITIES), load_csr(directory / GOLD)
        frequency = load_array(directory / FREQUENCY, mmap=False)
        p = probabilities.data
        faults = [
            (GOLD, _fault(gold, n_labels), (gold.data == 1).all(), "gold labels that are not ones"),
            (PROBABILITIES, _fault(probabilities, n_labels), ((p > 0) & (p < 1)).all(), "no probabilities"),
        ]
        for name, fault, holds, otherwise in faults:
            if fault or not holds:
                raise ArtifactError(f"{directory / name}: holds {fault or otherwise}; {REBUILD}")
        if gold.shape != probabilities.shape:
            found = f"{gold.shape[0]} documents, wanted {probabilities.shape[0]}, as in {PROBABILITIES}"
            raise ArtifactError(f"{directory / GOLD}: holds {found}; {REBUILD}")
        if frequency.shape != (n_labels,) or frequency.dtype != np.int64 or (frequency < 0).any():
            raise ArtifactError(
                f"{directory / FREQUENCY}: holds no counts of {n_labels} labels' documents; {REBUILD}"
            )
        return cls(probabilities, gold, frequency)


@dataclass(frozen=True)
class Calibration:
    """``calibrator`` turns log odds into probabilities; ``sample`` is what thresholds are chosen on."""

    calibrator: Calibrator
    sample: HeldOutSample

    @classmethod
    def fit(
        cls,
        pairs: tuple[np.ndarray, np.ndarray, np.ndarray],
        gold: sp.csr_matrix,
        frequency: np.ndarray,
        seed: int,
        hidden: np.ndarray | None = None,
    ) -> Calibration | None:
        """Fit on held-out documents; None with fewer than ``ENOUGH`` right pairs, or no wrong one.

        Args:
            pairs: (n_pairs,) document, label row and log odds of each candidate.
            gold: (n_docs, n_labels) all gold labels.
            frequency: (n_labels,) the documents of each label, without the held-out ones.
            seed: shares out the documents to folds.
            hidden: (n_labels,) bool labels whose documents were kept from the fit so that labels without any
                occur in it. The curves learn from them; the sample leaves them out, for new documents do not
                have that many labels without documents, and a threshold would allow for it. None: no label.
        """
        of_doc, rows, scores = pairs[0], pairs[1], pairs[2].astype(np.float64)
        right = is_gold(gold, of_doc, rows)
        if right.sum() < ENOUGH or right.all():
            return None
        seen, logistic = frequency[rows], Calibrator.logistic(1.0, 0.0)
        calibrator = Calibrator.fit(scores, right, seen, logistic)
        folds = (np.random.default_rng(seed).permutation(gold.shape[0]) % N_FOLDS)[of_doc]
        unseen = np.empty(len(rows), np.float32)
        for fold in range(N_FOLDS):
            out = folds == fold
            unseen[out] = Calibrator.fit(scores[~out], right[~out], seen[~out], logistic)(
                scores[out], seen[out]
            )
        return cls(calibrator, HeldOutSample.of(of_doc, rows, unseen, gold, frequency, hidden))

    def widened(self, n_labels: int) -> Calibration:
        """The same calibration for a label set that has grown to ``n_labels``."""
        return Calibration(self.calibrator, self.sample.widened(n_labels))

    def save(self, directory: Path) -> None:
        """Write everything into a new directory."""
        directory.mkdir()
        save_json(directory / CURVES, self.calibrator.to_json())
        self.sample.save(directory)

    @classmethod
    def load(cls, directory: Path, n_labels: int) -> Calibration:
        """Read what ``save`` wrote. Raises ArtifactError where a file is not what it should be."""
        curves = Calibrator.from_json(load_json(directory / CURVES), directory / CURVES)
        return cls(curves, HeldOutSample.load(directory, n_labels))


def is_gold(gold: sp.csr_matrix, of_doc: np.ndarray, rows: np.ndarray) -> np.ndarray:
    """(n_pairs,) bool whether ``gold`` (n_docs, n_labels) has each pair; of no pairs, too."""
    given, n_labels = gold.data > 0, np.int64(gold.shape[1])
    gold_docs, gold_rows = (entries[given] for entries in _coordinates(gold))
    return np.isin(of_doc * n_labels + rows, gold_docs * n_labels + gold_rows)


def _coordinates(matrix: sp.csr_matrix) -> tuple[np.ndarray, np.ndarray]:
    """(n_entries,) row and column of each entry."""
    return np.repeat(np.arange(matrix.shape[0]), np.diff(matrix.indptr)), matrix.indices


def _places(of_doc: np.ndarray, scores: np.ndarray) -> np.ndarray:
    """(n_pairs,) how many pairs of its document stand before each, best first; ``of_doc`` ascending."""
    order = np.lexsort((-scores, of_doc))
    places = np.empty(len(order), np.int64)
    places[order] = np.arange(len(order)) - np.searchsorted(of_doc, of_doc)
    return places


def _fault(matrix: sp.csr_matrix, n_labels: int) -> str:
    """What is wrong with the form of a matrix of the sample, or ""."""
    if matrix.shape[1] != n_labels:
        return f"{matrix.shape[1]} labels, wanted {n_labels}"
    if matrix.dtype != np.float32:
        return f"numbers of {matrix.dtype}, wanted float32"
    return "" if matrix.has_canonical_format else "labels twice or in no order"
