"""All metrics of one run: the matrix-based core that files and benchmarks share."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import scipy.sparse as sp

from xmc.errors import InputError, SettingError
from xmc.evaluate import f1
from xmc.evaluate.bins import label_bins
from xmc.evaluate.intervals import Difference, Interval, Metric, differences, intervals
from xmc.evaluate.metrics import PROPENSITY, RANKING, miss_rate
from xmc.evaluate.ranked import Matches, Ranked
from xmc.evaluate.reliability import Calibrated, calibrated
from xmc.propensity import inverse_propensity

PER_LABEL_K = 5
F1_KS = (1, 5)  # with more suggestions than gold labels an F1 says little more than how many there are


@dataclass(frozen=True)
class EvalSettings:
    """What is measured: the cut-offs, the threshold for F1, propensity constants, and the bootstrap."""

    ks: tuple[int, ...] = (1, 3, 5, 10, 50, 100)
    threshold: float = 0.5
    propensity_a: float = 0.55
    propensity_b: float = 1.5
    resamples: int = 1000
    confidence: float = 0.95
    seed: int = 0

    def validate(self) -> None:
        """Raise SettingError for the first value that means nothing."""
        wrong = [
            ("ks", self.ks, "positive whole numbers", all(k >= 1 for k in self.ks) and len(self.ks) > 0),
            ("threshold", self.threshold, "a finite number", np.isfinite(self.threshold)),
            ("propensity.a", self.propensity_a, "0 or more", 0 <= self.propensity_a < np.inf),
            ("propensity.b", self.propensity_b, "more than 0", 0 < self.propensity_b < np.inf),
            ("resamples", self.resamples, "0 (no intervals) or more", self.resamples >= 0),
            ("confidence", self.confidence, "between 0 and 1", 0 < self.confidence < 1),
        ]
        for name, value, wanted, right in wrong:
            if not right:
                raise SettingError(f"{name}={value}: expected {wanted}")


@dataclass(frozen=True)
class LabelNames:
    """(n_labels,) ids, and texts, which are "" for labels that the vocabulary lacks."""

    ids: Sequence[str]
    texts: Sequence[str]


@dataclass(frozen=True)
class Evaluation:
    """One run, measured. Names are as in ``P@5``, ``micro_f1_best``, ``R@10[zero]``; values are fractions.

    ``thresholds`` holds the score that each ``micro_f1_best`` was reached at; ``bins`` the number of
    labels and gold pairs of each bin, empty without training frequencies; ``counts`` how many of
    everything there was, in words; ``calibration`` is None where scores are no probabilities. From
    files, ``names`` are the labels' and ``doc_ids`` the documents', ``sources`` what was read, and
    ``notes`` what reading skipped or repaired.
    """

    settings: EvalSettings
    matches: Matches
    metrics: Mapping[str, Metric]
    thresholds: Mapping[str, float]
    intervals: Mapping[str, Interval]
    labels: f1.LabelCounts
    train_frequency: np.ndarray | None
    bins: Mapping[str, tuple[int, int]]
    counts: Mapping[str, int]
    calibration: Calibrated | None = None
    names: LabelNames | None = None
    doc_ids: Sequence[str] | None = None
    sources: Mapping[str, str] = field(default_factory=dict)
    notes: tuple[str, ...] = ()

    def value(self, name: str) -> float:
        """The metric as a fraction; NaN where it is not defined, as over no document."""
        return self.metrics[name].value

    @property
    def set_size(self) -> float:
        """Suggestions of a document, mean over all documents; NaN without any."""
        return len(self.matches.docs) / self.matches.n_docs if self.matches.n_docs else float("nan")

    @property
    def values(self) -> dict[str, float]:
        """Every metric as a fraction."""
        return {name: metric.value for name, metric in self.metrics.items()}


def evaluate(
    gold: sp.csr_matrix,
    ranked: Ranked,
    train_frequency: np.ndarray | None = None,
    n_train: int = 0,
    settings: EvalSettings | None = None,
) -> Evaluation:
    """Measure ``ranked`` against ``gold`` (n_docs, n_labels), non-zero where a label is right.

    With ``train_frequency`` (n_labels,), the number of the ``n_train`` training documents that bear
    each label, propensity-scored metrics and label bins are measured too. Time and memory grow with
    the suggestions and gold pairs, not with n_docs x n_labels.
    """
    settings = settings or EvalSettings()
    settings.validate()
    matches = Matches.build(gold, ranked)
    weights, bins = None, {}
    if train_frequency is not None:
        if len(train_frequency) != matches.n_labels:
            raise InputError(f"{len(train_frequency)} training frequencies for {matches.n_labels} labels")
        weights = inverse_propensity(train_frequency, n_train, settings.propensity_a, settings.propensity_b)
        bins = label_bins(train_frequency)
    metrics, thresholds = _metrics(matches, weights, settings, "")
    sizes = {}
    for name, members in bins.items():
        part = matches.within(members)
        more, at = _metrics(part, weights, settings, f"[{name}]")
        metrics |= more
        thresholds |= at
        sizes[name] = (int(members.sum()), len(part.gold_docs))
    return Evaluation(
        settings=settings,
        matches=matches,
        metrics=metrics,
        thresholds=thresholds,
        intervals=intervals(metrics, matches.n_docs, settings.resamples, settings.seed, settings.confidence),
        labels=f1.label_counts(matches, PER_LABEL_K),
        train_frequency=train_frequency,
        bins=sizes,
        counts=_counts(matches),
        calibration=calibrated(matches),
    )


def _metrics(
    m: Matches, weights: np.ndarray | None, settings: EvalSettings, suffix: str
) -> tuple[dict[str, Metric], dict[str, float]]:
    """Every metric of ``m`` under its name plus ``suffix``, and the thresholds of the best micro F1."""
    ks = sorted(set(settings.ks))
    out: dict[str, Metric] = {f"{name}@{k}": metric(m, k) for name, metric in RANKING.items() for k in ks}
    if weights is not None:
        out |= {f"{name}@{k}": metric(m, k, weights) for name, metric in PROPENSITY.items() for k in ks}
    out["miss_rate"] = miss_rate(m)
    selections = {f"@{k}": f1.first(m, k) for k in F1_KS}
    selections[f"_at_{settings.threshold:g}"] = f1.from_score(m, settings.threshold)
    for name, selected in selections.items():
        out[f"micro_f1{name}"] = f1.micro_f1(m, selected)
        out[f"macro_f1{name}"] = f1.macro_f1(m, selected)
    best = f1.best_threshold(m)
    out["micro_f1_best"] = f1.micro_f1(m, f1.from_score(m, np.inf if best is None else best))
    thresholds = {} if best is None else {f"micro_f1_best{suffix}": best}
    return {f"{name}{suffix}": metric for name, metric in out.items()}, thresholds


def _counts(m: Matches) -> dict[str, int]:
    no_gold = m.gold_counts == 0
    return {
        "documents": m.n_docs,
        "documents without gold labels (left out of averages over documents)": int(no_gold.sum()),
        "documents without suggestions (misses)": m.n_docs - len(np.unique(m.docs)),
        "gold labels": len(m.gold_docs),
        "suggestions": len(m.docs),
        "suggestions for documents without gold labels (wrong in F1)": int(no_gold[m.docs].sum()),
    }


def compare(a: Evaluation, b: Evaluation) -> dict[str, Difference]:
    """``a`` minus ``b``, metric by metric, by paired bootstrap over the documents that both were run on.

    Without resamples in the settings of ``a`` the differences have no interval.
    """
    one, other, s = a.matches, b.matches, a.settings
    same = one.n_docs == other.n_docs and np.array_equal(one.gold_docs, other.gold_docs)
    if not (same and np.array_equal(one.gold_labels, other.gold_labels)):
        raise InputError("two runs over different gold labels; wanted both measured against one gold file")
    return differences(a.metrics, b.metrics, one.n_docs, s.resamples, s.seed, s.confidence)
