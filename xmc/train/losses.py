"""Losses of a batch's scores, pure functions of (n_docs, n_labels) logits and gold labels.

``gold`` (n_docs, n_labels) bool; ``weight`` (n_labels,): of how many labels each column is a sample when it
is wrong (1 where all labels are there). Gold labels of a document are never its negatives.
"""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional


def binary_cross_entropy(logits: Tensor, gold: Tensor, weight: Tensor) -> Tensor:
    """Mean over documents of the sum over labels; wrong labels count by ``weight``."""
    missed = functional.softplus(-logits[gold]).sum()
    wrong = functional.softplus(logits).masked_fill(gold, 0.0) @ weight
    return (missed + wrong.sum()) / len(logits)


def decoupled_softmax(logits: Tensor, gold: Tensor, weight: Tensor) -> Tensor:
    """Each gold label against its document's wrong ones only, mean over documents (DEXML, ICLR 2024)."""
    wrong = (logits + weight.log()).masked_fill(gold, -torch.inf).logsumexp(dim=1)
    of_doc, _ = gold.nonzero(as_tuple=True)
    return functional.softplus(wrong[of_doc] - logits[gold]).sum() / len(logits)


LOSSES = {"bce": binary_cross_entropy, "decoupled_softmax": decoupled_softmax}
