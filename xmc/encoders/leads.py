"""Leads: the first lines of documents, where a title stands if there is one, and what they count for."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

LEAD = 300  # characters
# What a lead weighs in its document's vectors, beside the whole text in which it stands once more.
LEAD_SHARE = 0.35


def lead(text: str) -> str:
    """The first line that is not blank, or its first ``LEAD`` characters."""
    return text.lstrip()[:LEAD].partition("\n")[0]


def longer_than_leads(texts: Sequence[str]) -> np.ndarray:
    """(n,) positions of the texts that have more than their lead."""
    return np.array([i for i, text in enumerate(texts) if lead(text).rstrip() != text.strip()], np.int64)
