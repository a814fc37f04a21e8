"""What of a label is read: its text, other names and description, as one text."""

from __future__ import annotations

from xmc.data.labels import LabelSet


def label_texts(labels: LabelSet) -> list[str]:
    """n_labels texts: the label's text, its other names behind commas, its description behind a stop."""
    return [
        ". ".join(part for part in (", ".join(dict.fromkeys([text, *alts])), description) if part)
        for text, alts, description in zip(
            labels.texts.to_pylist(), labels.alts.to_pylist(), labels.descriptions.to_pylist(), strict=True
        )
    ]
