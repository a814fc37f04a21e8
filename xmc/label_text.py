"""What of a label is read: all of it as one text, and each of its names alone."""

from __future__ import annotations

import numpy as np
import pyarrow.compute as pc

from xmc.data.labels import LabelSet


def label_texts(labels: LabelSet) -> list[str]:
    """n_labels texts: the label's text, its other names behind commas, its description behind a stop."""
    return [
        ". ".join(filter(None, (", ".join(filter(None, dict.fromkeys([text, *alts]))), description)))
        for text, alts, description in zip(
            labels.texts.to_pylist(), labels.alts.to_pylist(), labels.descriptions.to_pylist(), strict=True
        )
    ]


def label_names(labels: LabelSet, texts: list[str]) -> tuple[list[str], np.ndarray]:
    """Every text that a label may be matched by, and (n_labels + 1,) where each label's begin.

    These are its names one by one and, where it has a description, all of it together (``texts``).
    """
    names, starts = labels.names()
    described = np.asarray(pc.not_equal(labels.descriptions, ""), dtype=bool)
    order = np.argsort(
        np.concatenate([np.repeat(np.arange(len(labels)), np.diff(starts)), np.flatnonzero(described)]),
        kind="stable",
    )
    all_names = [*names.to_pylist(), *(texts[i] for i in np.flatnonzero(described))]
    bounds = starts + np.concatenate([[0], np.cumsum(described)])
    return [all_names[i] for i in order], bounds


def same_text(labels: LabelSet) -> np.ndarray:
    """(n_labels,) int64: the row of the first label with the same text; its own for a label without one."""
    texts, rows = labels.texts, np.arange(len(labels))
    _, first, number = np.unique(
        pc.dictionary_encode(texts).indices.to_numpy(zero_copy_only=False),
        return_index=True,
        return_inverse=True,
    )
    empty = np.asarray(pc.equal(texts, ""), dtype=bool)
    return np.where(empty, rows, first[number]).astype(np.int64)
