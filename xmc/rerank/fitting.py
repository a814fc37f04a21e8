"""Fits the reranker on the shortlists of held-out documents, and keeps it only where it helps."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

from xmc.mix import ENOUGH
from xmc.rerank.head import LEAST_SPREAD, RerankHead
from xmc.rerank.inputs import RerankInputs

EPOCHS = (4, 12)
ENOUGH_STEPS = 500  # after which few more passes are made
BATCH = 32  # documents
RATE, DECAY = 3e-3, 1e-2
WARM_UP = 20  # steps
N_FOLDS = 2
FEWEST = 6  # documents, of which each fold has some


@dataclass(frozen=True)
class Fitted:
    """``head``, and (n, c) log odds of each document by heads that were fitted without it."""

    head: RerankHead
    unseen: Tensor


def fit_reranker(inputs: RerankInputs, right: Tensor, seed: int) -> Fitted | None:
    """Fit on held-out documents; ``right`` (n, c) bool.

    None where fewer than ``ENOUGH`` candidates are right, or where documents that it was not fitted on are
    not scored better than the first stage does, which was fitted on them.
    """
    if int(right.sum()) < ENOUGH or len(right) < FEWEST:
        return None
    folds = torch.from_numpy(np.random.default_rng(seed).permutation(len(right)) % N_FOLDS)
    unseen = torch.empty_like(inputs.log_odds)
    n_epochs = n_passes(len(right))
    for fold in range(N_FOLDS):
        out, rest = (folds == fold).nonzero()[:, 0], (folds != fold).nonzero()[:, 0]
        head = _fit(inputs.take(rest), right[rest], seed, n_epochs)
        unseen[out] = scores(head, inputs.take(out))
    is_candidate = inputs.place >= 0
    if not _loss(unseen, right, is_candidate) < _loss(inputs.log_odds, right, is_candidate):  # nor NaN
        return None
    return Fitted(_fit(inputs, right, seed, n_epochs), unseen)


def n_passes(n_docs: int) -> int:
    """How often each head is shown so many documents."""
    return int(np.clip(round(ENOUGH_STEPS * BATCH / max(1, n_docs)), *EPOCHS))


@torch.no_grad()
def scores(head: RerankHead, inputs: RerankInputs) -> Tensor:
    """(n, c) log odds, a block of documents at a time."""
    batches = zip(*(part.split(BATCH) for part in inputs), strict=True)
    return torch.cat([head(RerankInputs(*batch)) for batch in batches])


def _fit(inputs: RerankInputs, right: Tensor, seed: int, n_epochs: int) -> RerankHead:
    """The head after ``n_epochs`` passes; the same for the same inputs and seed."""
    with torch.random.fork_rng(devices=[]):
        torch.default_generator.manual_seed(seed)
        head = RerankHead(inputs.own.shape[2], inputs.near.shape[2] - 1)
        own = inputs.own[inputs.place >= 0]
        head.mean.copy_(own.mean(dim=0).nan_to_num())
        head.spread.copy_(own.std(dim=0).nan_to_num() + LEAST_SPREAD)
        _descend(head, inputs, right, n_epochs)
    return head.eval()


def _descend(head: RerankHead, inputs: RerankInputs, right: Tensor, n_epochs: int) -> None:
    adam = torch.optim.AdamW(head.parameters(), lr=RATE, weight_decay=DECAY)
    n_steps, step = n_epochs * -(-len(right) // BATCH), 0
    for _ in range(n_epochs):
        for rows in torch.randperm(len(right)).split(BATCH):
            for group in adam.param_groups:
                group["lr"] = RATE * min(1.0, (step + 1) / WARM_UP) * (1 - step / n_steps)
            batch = inputs.take(rows)
            loss = _loss(head(batch), right[rows], batch.place >= 0)
            adam.zero_grad()
            loss.backward()
            adam.step()
            step += 1


def _loss(log_odds: Tensor, right: Tensor, is_candidate: Tensor) -> Tensor:
    """Binary cross-entropy, a document's candidates added up: each is right or not for itself."""
    each = functional.binary_cross_entropy_with_logits(log_odds, right.float(), reduction="none")
    return (each * is_candidate).sum() / len(right)
