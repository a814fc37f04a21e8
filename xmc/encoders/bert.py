"""A BERT forward pass for CPUs, over windows laid end to end without padding.

The same mathematics as ``transformers``' ``BertModel`` (and RoBERTa's, which differs in its position numbers)
on the same weights, arranged for a CPU:

- No padding and no mask: the token-wise layers see one matrix (n_tokens, dim); attention runs over groups of
  windows of equal length.
- One matrix product for query, key and value, with the attention's scale folded into the query weights.
- Weights packed once for the CPU's matrix kernel (oneDNN). In bf16, GELU and residual sums are fused into it;
  in fp32 torch's own behind it are faster (measured with AVX2). Or 8-bit integers: ``xmc.encoders.int8``.
- Attention in fp32 by torch's flash kernel, which reads queries, keys and values where they lie. In bf16,
  scores in pieces that stay in the cache, softmax in fp32: torch's softmax of bf16 rows is up to three times
  slower when a row is not a multiple of its vector width.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch.nn import functional

from xmc.encoders import int8
from xmc.encoders.forward import DTYPES, Forward

if TYPE_CHECKING:
    from torch import nn

SCORES = 1 << 19  # attention scores computed at once: 2 MB in fp32
MakeLinear = Callable[[torch.Tensor, torch.Tensor], Callable[..., torch.Tensor]]
_FAMILIES = ("bert", "roberta", "xlm-roberta", "camembert")


def fits(model: nn.Module) -> bool:
    """Whether :class:`PackedBert` computes what this model does."""
    c: Any = model.config
    return (
        c.model_type in _FAMILIES
        and c.hidden_act == "gelu"
        and getattr(c, "position_embedding_type", None) in (None, "absolute")
        and not c.is_decoder
    )


def fits_int8(model: nn.Module) -> bool:
    """Whether :class:`PackedBert` computes what this model does in 8-bit integers too, on this CPU."""
    if not fits(model) or not int8.available():
        return False
    c: Any = model.config
    return c.hidden_size % int8.MULTIPLE == c.intermediate_size % int8.MULTIPLE == 0


class PackedBert(Forward):
    """Unit vectors of windows that lie end to end; see the module."""

    mixed = True

    @torch.inference_mode()
    def __init__(self, model: Any, pooling: str, dtype: str):
        """Takes the weights of a ``BertModel`` or ``RobertaModel`` in fp32.

        With ``dtype`` ``int8`` the token-wise layers multiply in integers, and all else is fp32.
        """
        c, self._pooling, self._eps = model.config, pooling, model.config.layer_norm_eps
        e, to = model.embeddings, DTYPES.get(dtype, torch.float32)
        self._words = e.word_embeddings.weight.detach().to(to)
        self._first = 0 if c.model_type == "bert" else c.pad_token_id + 1
        places = e.position_embeddings.weight[self._first :] + e.token_type_embeddings.weight[0]
        self._places = places.detach().to(to)
        self._norm = _norm(e.LayerNorm, to)
        # So many tokens' widest intermediate, 4 × dim, still fits the last cache; 8-bit products want less.
        self.budget = 1024 if dtype == "int8" else 2048
        linear = int8.Int8Linear if dtype == "int8" else partial(_linear, dtype=to)
        self._layers = [_Layer(layer, c.num_attention_heads, to, linear) for layer in model.encoder.layer]

    def widths(self, lengths: np.ndarray) -> np.ndarray:
        """The lengths: nothing is padded."""
        return lengths

    @torch.inference_mode()
    def __call__(self, ids: np.ndarray, lengths: np.ndarray) -> np.ndarray:
        """See :class:`Forward`; windows of equal length must lie side by side."""
        ends = np.cumsum(lengths)
        position = np.arange(len(ids)) - np.repeat(ends - lengths, lengths)
        x = functional.embedding(torch.from_numpy(ids), self._words)
        x += functional.embedding(torch.from_numpy(position), self._places)
        x = functional.layer_norm(x, x.shape[1:], *self._norm, eps=self._eps)
        groups = _groups(lengths)
        for layer in self._layers:
            x = layer(x, groups, self._eps)
        if self._pooling == "cls":
            vectors = x[torch.from_numpy(ends - lengths)].float()
        else:
            parts = [x[s : s + n * size].view(n, size, -1) for s, n, size in groups]
            vectors = torch.cat([part.mean(1, dtype=torch.float32) for part in parts])
        return functional.normalize(vectors, dim=1).numpy()


class _Layer:
    def __init__(self, layer: Any, heads: int, dtype: torch.dtype, linear: MakeLinear):
        a = layer.attention
        self._heads = heads
        scale = (a.self.query.weight.shape[0] // heads) ** -0.5
        weights = [a.self.query.weight * scale, a.self.key.weight, a.self.value.weight]
        biases = [a.self.query.bias * scale, a.self.key.bias, a.self.value.bias]
        self._qkv = linear(torch.cat(weights), torch.cat(biases))
        self._out = linear(a.output.dense.weight, a.output.dense.bias)
        self._up = linear(layer.intermediate.dense.weight, layer.intermediate.dense.bias)
        self._down = linear(layer.output.dense.weight, layer.output.dense.bias)
        self._norm1, self._norm2 = _norm(a.output.LayerNorm, dtype), _norm(layer.output.LayerNorm, dtype)

    def __call__(self, x: torch.Tensor, groups: list[tuple[int, int, int]], eps: float) -> torch.Tensor:
        qkv = self._qkv(x)
        mixed = torch.empty_like(x)
        for start, n, length in groups:
            part = slice(start, start + n * length)
            mixed[part] = _attend(qkv[part], n, length, self._heads)
        x = functional.layer_norm(self._out(mixed, residual=x), x.shape[1:], *self._norm1, eps=eps)
        y = self._down(self._up(x, gelu=True), residual=x)
        return functional.layer_norm(y, x.shape[1:], *self._norm2, eps=eps)


def _attend(qkv: torch.Tensor, n: int, length: int, heads: int) -> torch.Tensor:
    """(n * length, dim) from (n * length, 3 * dim): attention within ``n`` windows of ``length`` tokens."""
    width = qkv.shape[1] // (3 * heads)
    split = qkv.view(n, length, 3, heads, width).permute(2, 0, 3, 1, 4)
    if qkv.dtype == torch.float32:
        q, k, v = split
        found = functional.scaled_dot_product_attention(q, k, v, scale=1.0)
        return found.transpose(1, 2).reshape(n * length, heads * width)
    q, k, v = split.reshape(3, n * heads, length, width)
    k = k.transpose(1, 2)
    out = torch.empty_like(q)
    step = max(1, SCORES // length**2)
    for i in range(0, len(q), step):
        scores = torch.bmm(q[i : i + step], k[i : i + step])
        share = torch.softmax(scores.float(), -1).to(scores.dtype)
        torch.bmm(share, v[i : i + step], out=out[i : i + step])
    return out.view(n, heads, length, width).transpose(1, 2).reshape(n * length, heads * width)


def _groups(lengths: np.ndarray) -> list[tuple[int, int, int]]:
    """First token, number of windows and their length, of each run of equal lengths."""
    first = np.flatnonzero(np.diff(lengths, prepend=-1))
    counts = np.diff(np.append(first, len(lengths)))
    starts = (np.cumsum(lengths) - lengths)[first]
    return [
        (int(s), int(n), int(length)) for s, n, length in zip(starts, counts, lengths[first], strict=True)
    ]


def _norm(norm: Any, dtype: torch.dtype) -> tuple[torch.Tensor, torch.Tensor]:
    return norm.weight.detach().to(dtype), norm.bias.detach().to(dtype)


def _linear(weight: torch.Tensor, bias: torch.Tensor, dtype: torch.dtype) -> Callable[..., torch.Tensor]:
    w, b = weight.detach().to(dtype), bias.detach().to(dtype)
    return _PackedLinear(w, b) if packs(dtype) else _PlainLinear(w, b)


def packs(dtype: torch.dtype) -> bool:
    """Whether torch has oneDNN's linear layer with packed weights and fused operations, for this CPU."""
    names = ["_reorder_linear_weight", "_linear_pointwise"]
    asked = {torch.bfloat16: "_is_mkldnn_bf16_supported", torch.float16: "_is_mkldnn_fp16_supported"}.get(
        dtype
    )
    names += [asked] if asked else []
    if not torch.backends.mkldnn.is_available() or not all(hasattr(torch.ops.mkldnn, n) for n in names):
        return False
    return asked is None or bool(getattr(torch.ops.mkldnn, asked)())


def _finish(y: torch.Tensor, gelu: bool, residual: torch.Tensor | None) -> torch.Tensor:
    """``y``, changed in place: with the residual added, or through GELU."""
    if residual is not None:
        y += residual
    return torch.ops.aten.gelu_(y) if gelu else y


class _PlainLinear:
    def __init__(self, weight: torch.Tensor, bias: torch.Tensor):
        self._weight, self._bias = weight, bias

    def __call__(
        self, x: torch.Tensor, gelu: bool = False, residual: torch.Tensor | None = None
    ) -> torch.Tensor:
        return _finish(functional.linear(x, self._weight, self._bias), gelu, residual)


class _PackedLinear:
    def __init__(self, weight: torch.Tensor, bias: torch.Tensor):
        self._weight = torch.ops.mkldnn._reorder_linear_weight(weight, 2048)
        self._bias = bias

    def __call__(
        self, x: torch.Tensor, gelu: bool = False, residual: torch.Tensor | None = None
    ) -> torch.Tensor:
        ops = torch.ops.mkldnn._linear_pointwise
        if x.dtype == torch.float32:
            return _finish(ops(x, self._weight, self._bias, "none", [], ""), gelu, residual)
        if residual is not None:
            return ops.binary(x, residual, self._weight, self._bias, "add")
        return ops(x, self._weight, self._bias, "gelu" if gelu else "none", [], "none" if gelu else "")
