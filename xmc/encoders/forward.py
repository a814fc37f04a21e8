"""From token ids to unit vectors: the one contract, and the forward pass that suits every model.

Windows come laid end to end, sorted by length; each gives one vector. :class:`PaddedForward` runs the
``transformers`` model as it is; ``xmc.encoders.bert`` holds a faster pass for BERT-like models on a CPU.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any

import numpy as np
import torch
from torch.nn import functional

DTYPES = {"fp32": torch.float32, "bf16": torch.bfloat16, "fp16": torch.float16}


class Forward(ABC):
    """A model ready to run on one device in one dtype. Calls from several threads at once are allowed."""

    budget: int  # tokens of a batch, as widths() counts them
    mixed: bool  # whether one batch may hold windows of several widths

    @abstractmethod
    def widths(self, lengths: np.ndarray) -> np.ndarray:
        """(n_windows,) tokens that are computed for windows of ``lengths`` tokens, padding included."""

    @abstractmethod
    def __call__(self, ids: np.ndarray, lengths: np.ndarray) -> np.ndarray:
        """(n_windows, dim) float32 unit vectors of windows end to end in ``ids`` (n_tokens,) int64."""


class PaddedForward(Forward):
    """Any ``transformers`` encoder, on any device, over padded batches."""

    mixed = False

    def __init__(self, model: Any, pooling: str, max_length: int, device: str, dtype: str):
        self._model = model.to(device=device, dtype=DTYPES[dtype])
        self._pooling, self._longest, self.device = pooling, max_length, torch.device(device)
        self._pad = int(getattr(model.config, "pad_token_id", None) or 0)
        self.budget = 2048 if device == "cpu" else 65_536

    def widths(self, lengths: np.ndarray) -> np.ndarray:
        """The next multiple of 8 up to 128, of 16 above: it depends on the window alone, not on its batch."""
        step = np.where(lengths > 128, 16, 8)
        return np.minimum(-(-lengths // step) * step, self._longest)

    @torch.inference_mode()
    def __call__(self, ids: np.ndarray, lengths: np.ndarray) -> np.ndarray:
        """See :class:`Forward`."""
        return self.embed(ids, lengths).cpu().numpy()

    def embed(self, ids: np.ndarray, lengths: np.ndarray) -> torch.Tensor:
        """The same vectors where they were computed, with gradients outside of inference mode."""
        return self.vectors(*self.padded(ids, lengths))

    def padded(self, ids: np.ndarray, lengths: np.ndarray) -> tuple[torch.Tensor, torch.Tensor]:
        """(n_windows, width) int64 token ids, filled up, and bool where they are tokens, on the device."""
        inside = np.arange(self.widths(lengths).max()) < lengths[:, None]
        padded = np.full(inside.shape, self._pad, np.int64)
        padded[inside] = ids
        return self._move(padded), self._move(inside)

    def vectors(self, padded: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        """(n_windows, dim) unit vectors of what :meth:`padded` gave."""
        hidden = self._model(input_ids=padded, attention_mask=mask.long())[0]
        if self._pooling == "cls":
            vectors = hidden[:, 0].float()
        else:
            vectors = (hidden.float() * mask[:, :, None]).sum(1) / mask.sum(1, keepdim=True)
        return functional.normalize(vectors, dim=1)

    def _move(self, array: np.ndarray) -> torch.Tensor:
        tensor = torch.from_numpy(array)
        if self.device.type == "cpu":
            return tensor
        return tensor.pin_memory().to(self.device, non_blocking=True)
