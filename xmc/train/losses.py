"""Losses of a batch's scores, pure functions of (n_docs, n_labels) logits and gold labels.

``gold`` (n_docs, n_labels) bool; ``weight`` (n_labels,): of how many labels each column is a sample when it
is wrong (1 where all labels are there). Gold labels of a document are never its negatives; a label that is to
count as nothing for a document has a logit of minus infinity there.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional

TOP = 5  # wrong labels that may stand before a gold one, of the soft top-k loss
# Of the adaptive margin, both on cosines in PRIME, whose logits here are SCALE times as long at first.
MARGIN, FLOOR, SCALE = 0.3, 0.1, 20.0
HARDEST = 100  # wrong labels of a document that the adaptive margin looks at
MOST_HALVINGS = 100


def binary_cross_entropy(logits: Tensor, gold: Tensor, weight: Tensor) -> Tensor:
    """Mean over documents of the sum over labels; wrong labels count by ``weight``."""
    return propensity_bce(logits, gold, weight, torch.ones_like(weight))


def propensity_bce(logits: Tensor, gold: Tensor, weight: Tensor, inverse: Tensor) -> Tensor:
    """Binary cross-entropy in which a gold label of propensity p counts 2 / p - 1 times.

    ``inverse`` (n_labels,): 1 / p, how much rarer a label is noted than right (Jain et al., KDD 2016). With
    these factors the 0-1 loss is, in expectation over the labels that were not noted and up to a constant,
    that over all right ones; the logistic loss is put in its place, which stays convex and bounded from below
    (Qaraei et al., WWW 2021).
    """
    of_doc, column = gold.nonzero(as_tuple=True)
    missed = (2 * inverse[column] - 1) * functional.softplus(-logits[of_doc, column])
    wrong = functional.softplus(logits).masked_fill(gold, 0.0) @ weight
    return (missed.sum() + wrong.sum()) / len(logits)


def decoupled_softmax(logits: Tensor, gold: Tensor, weight: Tensor) -> Tensor:
    """Each gold label against its document's wrong ones only, mean over documents (DEXML, ICLR 2024)."""
    wrong = (logits + weight.log()).masked_fill(gold, -torch.inf).logsumexp(dim=1)
    of_doc, _ = gold.nonzero(as_tuple=True)
    return functional.softplus(wrong[of_doc] - logits[gold]).sum() / len(logits)


def soft_top_k(logits: Tensor, gold: Tensor, weight: Tensor, k: int = TOP) -> Tensor:
    """Each gold label against the place behind its document's best ``k`` wrong ones, mean over documents.

    After the soft top-k operator of DEXML (Gupta et al., ICLR 2024): a label's share of the best is the
    logistic function of its logit above a threshold that makes the shares' sum ``k``. There all labels share
    the places; here the wrong ones alone do, so that gold labels do not compete, as in the decoupled softmax.
    Documents with ``k`` wrong labels or fewer teach nothing.
    """
    wrong = logits.masked_fill(gold, -torch.inf)
    enough = torch.nonzero((wrong > -torch.inf).to(weight.dtype) @ weight > k)[:, 0]
    if not len(enough):
        return 0.0 * logits[gold].sum()
    threshold = torch.full_like(logits[:, 0], -torch.inf)
    threshold = threshold.index_put((enough,), soft_threshold(wrong[enough], weight, k))
    of_doc, _ = gold.nonzero(as_tuple=True)
    return functional.softplus(threshold[of_doc] - logits[gold]).sum() / len(logits)


def soft_threshold(scores: Tensor, weight: Tensor, k: float) -> Tensor:
    """(n,) t with sum of ``weight * sigmoid(scores - t)`` = ``k`` for each of (n, n_labels) scores.

    Minus infinity counts as nothing; the weights of the others sum up to more than ``k``. Found by bisection;
    the gradient is that of the implicit function.
    """
    low, high = _bracket(scores.detach(), weight, k)
    for _ in range(MOST_HALVINGS):
        middle = (low + high) / 2
        if ((middle <= low) | (middle >= high)).all():
            break
        above = torch.sigmoid(scores.detach() - middle[:, None]) @ weight > k
        low, high = torch.where(above, middle, low), torch.where(above, high, middle)
    shares = torch.sigmoid(scores - middle[:, None])
    slope = ((shares * (1 - shares)).detach() @ weight).clamp(min=torch.finfo(scores.dtype).tiny)
    count = shares @ weight
    return middle + (count - count.detach()) / slope


def _bracket(scores: Tensor, weight: Tensor, k: float) -> tuple[Tensor, Tensor]:
    """(n,) and (n,) what the threshold is if all scores are the lowest, or the highest."""
    known = scores > -torch.inf
    spread = (known.to(weight.dtype) @ weight / k - 1).log()
    lowest = scores.masked_fill(~known, torch.inf).amin(dim=1)
    return lowest + spread, scores.amax(dim=1) + spread


def adaptive_margin(logits: Tensor, gold: Tensor, weight: Tensor, prototypes: Tensor) -> Tensor:
    """Triplets of a document, a gold and a wrong label, whose margin is the smaller the more alike these are.

    ``prototypes`` (n_labels, dim), through which no gradient flows here. After PRIME (Dahiya, Ortego and
    Jiménez-Cabello, NAACL 2025): each gold label shall stand a margin before each of the ``HARDEST`` wrong
    ones, at most ``MARGIN`` and at least ``FLOOR`` on the scale of cosines. That the margin falls with the
    cosine of the two prototypes is our own reading: labels that mean nearly the same need no wide gap.
    """
    wrong = logits.masked_fill(gold, -torch.inf)
    n = min(HARDEST, logits.shape[1])
    hardest = wrong.detach().topk(n, dim=1).indices
    of_doc, column = gold.nonzero(as_tuple=True)
    rivals = hardest[of_doc]
    directions = functional.normalize(prototypes.detach(), dim=1)
    alike = (directions[column] @ directions.T).gather(1, rivals)
    margin = SCALE * (MARGIN * (1 - alike)).clamp(FLOOR, MARGIN)
    behind = functional.relu(wrong[of_doc].gather(1, rivals) - logits[of_doc, column][:, None] + margin)
    return (behind * weight[rivals]).sum() / (HARDEST * len(logits))


@dataclass(frozen=True)
class StepLabels:
    """What is known of a step's labels, of which each loss takes what it needs.

    ``weight`` (n_labels,) as above; ``inverse`` (n_labels,): 1 / propensity; ``prototypes`` (n_labels, dim).
    """

    weight: Tensor
    inverse: Tensor
    prototypes: Tensor


Loss = Callable[[Tensor, Tensor, StepLabels], Tensor]


def _weighted(loss: Callable[[Tensor, Tensor, Tensor], Tensor]) -> Loss:
    return lambda logits, gold, labels: loss(logits, gold, labels.weight)


LOSSES: dict[str, Loss] = {
    "bce": _weighted(binary_cross_entropy),
    "propensity_bce": lambda logits, gold, of: propensity_bce(logits, gold, of.weight, of.inverse),
    "decoupled_softmax": _weighted(decoupled_softmax),
    "soft_top_k": _weighted(soft_top_k),
    "adaptive_margin": lambda logits, gold, of: adaptive_margin(logits, gold, of.weight, of.prototypes),
}
