"""Bootstrap intervals over documents, for one run and for the difference of two."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np

from xmc.errors import InputError
from xmc.evaluate.f1 import LabelMean
from xmc.evaluate.metrics import Ratio

Metric = Ratio | LabelMean
WEIGHTS_AT_ONCE = 1 << 22  # 16 MB of float32: documents x resamples held at a time


@dataclass(frozen=True)
class Interval:
    """Between which fractions another sample of as many documents would put the metric."""

    low: float
    high: float


@dataclass(frozen=True)
class Difference:
    """Run ``a`` minus run ``b`` on the same documents, with its interval.

    ``wins`` is the share of resamples in which ``a`` is better, a tie counting half. All but ``value`` are
    NaN where there were no resamples.
    """

    value: float
    low: float
    high: float
    wins: float


def draws(n_docs: int, n: int, seed: int) -> Iterator[np.ndarray]:
    """``n`` bootstrap samples, some at a time: (b, n_docs) float32, how often each document is drawn."""
    rng = np.random.default_rng(seed)
    at_once = max(1, WEIGHTS_AT_ONCE // max(n_docs, 1))
    for start in range(0, n, at_once):
        b = min(at_once, n - start)
        picks = rng.integers(0, n_docs, size=(b, n_docs)) + n_docs * np.arange(b)[:, None]
        yield np.bincount(picks.ravel(), minlength=b * n_docs).reshape(b, n_docs).astype(np.float32)


def resample(metrics: Mapping[str, Metric], n_docs: int, n: int, seed: int) -> dict[str, np.ndarray]:
    """Each metric in ``n`` bootstrap samples: name to (n,). The same seed draws the same documents."""
    ratios = {name: m for name, m in metrics.items() if isinstance(m, Ratio)}
    means = {name: m for name, m in metrics.items() if isinstance(m, LabelMean)}
    columns, where = _columns(ratios, n_docs)
    parts: dict[str, list[np.ndarray]] = {name: [] for name in metrics}
    for weights in draws(n_docs, n, seed):
        sums = weights @ columns
        for name in ratios:
            top, bottom = (sums[:, at] for at in where[name])
            nothing = np.full(len(top), np.nan, dtype=np.float32)
            parts[name].append(np.divide(top, bottom, out=nothing, where=bottom > 0))
        by_document = np.ascontiguousarray(weights.T)
        occurs = {id(mean.gold): mean.gold for mean in means.values()}  # shared by the metrics of a bin
        drawn = {key: gold @ by_document > 0 for key, gold in occurs.items()}
        for name, mean in means.items():
            parts[name].append(mean.weighted(by_document, drawn[id(mean.gold)]))
    return {name: np.concatenate(values) for name, values in parts.items()}


def _columns(ratios: Mapping[str, Ratio], n_docs: int) -> tuple[np.ndarray, dict[str, tuple[int, int]]]:
    """(n_docs, n_columns) float32 of all sums, a shared denominator once, and each metric's two columns."""
    place: dict[int, int] = {}
    arrays: list[np.ndarray] = []

    def at(array: np.ndarray) -> int:
        if id(array) not in place:
            place[id(array)] = len(arrays)
            arrays.append(array)
        return place[id(array)]

    where = {name: (at(r.top), at(r.bottom)) for name, r in ratios.items()}
    columns = np.empty((n_docs, len(arrays)), dtype=np.float32)
    for i, array in enumerate(arrays):
        columns[:, i] = array
    return columns, where


def intervals(
    metrics: Mapping[str, Metric], n_docs: int, n: int, seed: int, confidence: float = 0.95
) -> dict[str, Interval]:
    """Percentile intervals from ``n`` bootstrap samples of the documents (Efron and Tibshirani 1993).

    The samples are moved so that their mean is the metric. For means over documents that changes
    next to nothing. Macro F1 is higher in a sample than in the documents it is drawn from, since rare
    labels drop out and those that stay are drawn more than once; unmoved, its interval may lie wholly
    above it. Only documents are drawn: the spread of training runs is not in it. A metric that is NaN
    has no interval.
    """
    defined = {name: m for name, m in metrics.items() if not np.isnan(m.value)}
    if not n or not n_docs or not defined:
        return {}
    samples = resample(defined, n_docs, n, seed)
    return {
        name: Interval(*np.clip(_bounds(centred(values, defined[name].value), confidence), 0, 1).tolist())
        for name, values in samples.items()
    }


def centred(values: np.ndarray, value: float) -> np.ndarray:
    """The draws in which a metric is defined (a small bin is missing from some), moved to mean ``value``."""
    values = values[~np.isnan(values)].astype(np.float64)
    return values - values.mean() + value if len(values) else np.array([value])


def _bounds(values: np.ndarray, confidence: float) -> tuple[float, float]:
    low, high = np.quantile(values, [(1 - confidence) / 2, (1 + confidence) / 2])
    return float(low), float(high)


def differences(
    a: Mapping[str, Metric],
    b: Mapping[str, Metric],
    n_docs: int,
    n: int = 1000,
    seed: int = 0,
    confidence: float = 0.95,
) -> dict[str, Difference]:
    """Paired bootstrap: both runs are scored on the same draws of the same ``n_docs`` documents.

    Takes the metrics that both have; with ``n`` = 0 there is nothing but the differences. That the gold
    labels are the same is the caller's to see (``evaluation.compare`` does); another number of documents is
    refused.
    """
    names = [name for name in a if name in b and not np.isnan(a[name].value - b[name].value)]
    for name in names:
        _refuse_other_documents(name, a[name], b[name], n_docs)
    gaps = {name: a[name].value - b[name].value for name in names}
    if n == 0:
        return {name: Difference(value, np.nan, np.nan, np.nan) for name, value in gaps.items()}
    ours = resample({name: a[name] for name in names}, n_docs, n, seed)
    theirs = resample({name: b[name] for name in names}, n_docs, n, seed)
    out = {}
    for name, value in gaps.items():
        gap = centred(ours[name] - theirs[name], value)
        wins = float(np.mean((np.sign(gap) + 1) / 2))
        out[name] = Difference(value, *_bounds(gap, confidence), wins)
    return out


def _refuse_other_documents(name: str, a: Metric, b: Metric, n_docs: int) -> None:
    sizes = {len(m.top) if isinstance(m, Ratio) else m.gold.shape[1] for m in (a, b)}
    if sizes != {n_docs}:
        raise InputError(f"{name}: runs over {sorted(sizes)} documents cannot be compared as {n_docs} pairs")
