"""Vectors in 8-bit levels for the coarse pass, on processors that multiply bf16 no faster than fp32.

A vector is whole numbers from -127 to 127 times a scale of its own, a query those from -63 to 63 times a
step of its own: half as many, so that the sum of two products fits the 16 bits in which processors without
VNNI add them. Sums are exact; what rounding loses is measured, and enters the bound. Levels take a quarter
of the vectors' memory, and AVX2 makes about twice the products a second of fp32.
"""

from __future__ import annotations

from functools import cache

import torch
from torch import Tensor
from torch.nn.functional import pad

from xmc.encoders import int8
from xmc.index.best import GROUP
from xmc.index.bounds import longest_of

# Vectors that are packed, and multiplied, together: with 1,024 queries their scores are 8 MB.
BLOCK = 2048
HIGHEST = 127
HIGHEST_OF_QUERY = 63
# Queries are shifted to whole numbers of 0 or more, as the product wants them.
SHIFT = 64
LEAST_SCALE = 1e-37


class Levels:
    """(n, dim) vectors in levels.

    Attributes:
        loss: no vector lost more length by rounding.
    """

    def __init__(self, vectors: Tensor) -> None:
        self.loss = 0.0
        self._n, self._dim = vectors.shape
        self._zeros = torch.zeros(BLOCK, dtype=torch.int64)
        self._blocks = [self._packed(vectors[at : at + BLOCK]) for at in range(0, self._n, BLOCK)]

    def __len__(self) -> int:
        return self._n

    def products(self, queries: Tensor, number: int) -> Tensor:
        """(n, w) fp32 inner products of shifted (n, dim) queries with block ``number``.

        Its m vectors come first; w is the next multiple of ``GROUP``.
        """
        weight, scales = self._blocks[number]
        weights = (weight, scales, self._zeros[: len(scales)])
        product = torch.ops.onednn.qlinear_pointwise
        return product(queries, 1.0, SHIFT, *weights, None, 1.0, 0, torch.float32, "none", [], "")

    def _packed(self, vectors: Tensor) -> tuple[Tensor, Tensor]:
        """Levels as the product wants them, and the scale of each vector."""
        scales = (vectors.abs().amax(1) / HIGHEST).clamp_(min=LEAST_SCALE)
        levels = (vectors / scales[:, None]).round_()
        self.loss = max(self.loss, longest_of(torch.addcmul(vectors, levels, scales[:, None], value=-1)))
        more = (0, -self._dim % int8.MULTIPLE, 0, -len(vectors) % GROUP)
        whole = pad(levels.to(torch.int8), more)
        return torch.ops.onednn.qlinear_prepack(whole, None), pad(scales, more[2:])


def rounded(queries: Tensor) -> tuple[Tensor, Tensor]:
    """(n, dim) fp32 whole numbers and (n, 1) fp32 steps whose product is nearest the (n, dim) queries."""
    steps = (queries.abs().amax(1, keepdim=True) / HIGHEST_OF_QUERY).clamp_(min=LEAST_SCALE)
    return (queries / steps).round_(), steps


def shifted(levels: Tensor) -> Tensor:
    """(n, dim') uint8: what :meth:`Levels.products` takes for whole numbers from :func:`rounded`."""
    more = -levels.shape[1] % int8.MULTIPLE
    return pad(levels + SHIFT, (0, more), value=SHIFT).to(torch.uint8)


@cache
def available() -> bool:
    """Whether torch has the product for this CPU, and sums the largest numbers that occur exactly."""
    if not int8.available():
        return False
    signs = torch.tensor([[1.0], [-1.0]]).expand(2, 96)
    found = Levels(signs * HIGHEST).products(shifted(signs * HIGHEST_OF_QUERY), 0)[:, :2]
    return torch.equal(found, HIGHEST * HIGHEST_OF_QUERY * (signs @ signs.T))
