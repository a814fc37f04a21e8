"""The dense tower: any Hugging Face encoder over token windows, mean-pooled, unit length.

A text of any length is used to its end: it is cut into windows (``xmc.encoders.windows``), each window is
encoded, and the document's vector is the mean of its unit window vectors weighted by tokens, normalised. Its
lead, the first line, is encoded alone too and has a share of the vector.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, cast

import numpy as np

from xmc.deadline import check_time
from xmc.encoders import pretrained
from xmc.encoders.leads import LEAD_SHARE, lead, longer_than_leads
from xmc.encoders.lexical import unit
from xmc.encoders.windows import Windows, WindowVectors, batches, cut, lay, pool, spans, tokenise
from xmc.encoders.writer import VectorWriter
from xmc.errors import InputError, ResourceError, SettingError, some
from xmc.settings import DTYPES, require_one_of

if TYPE_CHECKING:
    from tokenizers import Tokenizer
    from torch import nn

    from xmc.encoders.forward import Forward, PaddedForward

_Computed = Generator[np.ndarray, None, None]
MAX_LENGTH = 256  # tokens of a window, special ones included
SMALLEST = 256  # tokens: batches of a short list are cut down to this, so that all threads get some


class DenseTower:
    """Texts to unit vectors. Made with :meth:`load`; see :meth:`encode` for what is guaranteed."""

    def __init__(
        self, folder: Path, name: str, max_length: int | None, device: str, dtype: str, threads: int
    ):
        self.name, self.device, self.dtype, self.threads = name, device, dtype, threads
        self._folder = folder
        self.tokenizer: Tokenizer = pretrained.load_tokenizer(folder)
        self.pooling = pretrained.pooling(folder)
        prefix, suffix = pretrained.special_tokens(self.tokenizer)
        self._prefix, self._suffix = np.array(prefix, np.int64), np.array(suffix, np.int64)
        model = pretrained.load_model(folder)
        self.max_length = _length(folder, max_length, pretrained.longest(folder, model.config))
        pretrained.same_vocabulary(folder, self.tokenizer, model)
        self._forward = self._start(model)
        self.dim = self._probe()

    @classmethod
    def load(
        cls,
        name_or_path: str = "default",
        max_length: int | None = None,
        device: str = "auto",
        dtype: str = "auto",
        threads: int | None = None,
    ) -> DenseTower:
        """Loads an encoder.

        Args:
            name_or_path: a model folder, a hub name, or ``default`` (all-MiniLM-L6-v2).
            max_length: tokens of a window, special ones included; None: 256, or less if the model takes less.
            device: ``auto`` (a GPU where there is one), ``cpu``, ``cuda``, ``cuda:1``.
            dtype: ``auto`` (bf16 where the device computes with it, else fp32), ``fp32``, ``bf16``, ``fp16``,
                ``int8`` (BERT-like models on a CPU: see ``xmc.encoders.int8``).
            threads: CPU threads of :meth:`encode`; None: as many as torch uses.

        Raises:
            InputError: no model there, not an encoder, no tokenizer.
            SettingError: a length, device or dtype that is not possible.
            ResourceError: no network, no such device.
        """
        import torch

        folder, device = pretrained.find(name_or_path), _device(device)
        name = pretrained.read_json(folder, pretrained.SETTINGS).get("name") or _name(name_or_path)
        return cls(
            folder, name, max_length, device, _dtype(dtype, device), threads or torch.get_num_threads()
        )

    @cached_property
    def sha256(self) -> str:
        """SHA-256 of the weights: of the one file, or of the files' digests where there are several."""
        return pretrained.sha256(pretrained.weights(self._folder))

    def save(self, directory: Path, tuned: nn.Module | None = None) -> None:
        """Writes weights (safetensors: byte for byte), config, tokenizer, pooling; :meth:`load` reads it.

        With ``tuned``, what :meth:`trainable` gave is written in the place of the weights.
        """
        settings = {"name": self.name, "pooling": self.pooling, "max_length": self.max_length}
        pretrained.keep(self._folder, Path(directory), self.tokenizer, settings, tuned)

    def trainable(self) -> tuple[nn.Module, PaddedForward]:
        """The model in fp32, with weights of its own, and the pass that gives vectors with gradients."""
        from xmc.encoders.forward import PaddedForward

        model = pretrained.load_model(self._folder)
        return model, PaddedForward(model, self.pooling, self.max_length, self.device, "fp32")

    def windows(self, ids: np.ndarray, counts: np.ndarray, longest: int) -> Windows:
        """Tokens of texts (``xmc.encoders.windows.tokenise``) in windows of ``longest`` tokens at most."""
        return cut(ids, counts, min(longest, self.max_length) - self._n_special)

    def laid(self, windows: Windows, rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Token ids of some windows end to end, special ones included, and the (n,) length of each."""
        return lay(windows, rows, self._prefix, self._suffix), windows.lengths[rows] + self._n_special

    def encode(
        self,
        texts: Sequence[str],
        progress: Callable[[int], None] | None = None,
        names: Sequence[str] | None = None,
    ) -> WindowVectors:
        """Vectors of the texts, in their order.

        The same list gives the same bytes again under the same device and dtype, with any number of threads:
        each batch follows from the list and is computed by one thread. In another list a text's vector
        differs by rounding only, since how its windows are cut and padded depends on the text alone.

        Args:
            texts: any strings; those without tokens get a zero vector and no window.
            progress: called with the number of texts done since the last call.
            names: what to call the texts in a message; None: their positions.

        Raises:
            InputError: the model gives NaN or infinity for a text, also in fp32.
        """
        found, rows = self._encode(texts, progress, names), longer_than_leads(texts)
        if not len(rows):
            return found
        named = None if names is None else [names[i] for i in rows]
        leads = self._encode([lead(texts[i]) for i in rows], None, named)
        vectors = found.vectors.copy()
        vectors[rows] = unit((1 - LEAD_SHARE) * vectors[rows] + LEAD_SHARE * leads.vectors)
        return replace(found, vectors=vectors)

    def _encode(
        self, texts: Sequence[str], progress: Callable[[int], None] | None, names: Sequence[str] | None
    ) -> WindowVectors:
        """Vectors of the texts' windows, and of the texts without regard to their leads."""
        ids, counts = tokenise(self.tokenizer, texts)
        windows = cut(ids, counts, self.max_length - self._n_special)
        report = _Progress(windows, progress)
        vectors = np.zeros((len(windows.lengths), self.dim), np.float32)
        for rows, found in self._vectors(windows):
            check_time()
            vectors[rows] = found if np.isfinite(found).all() else self._again(windows, rows, names)
            report.done(rows)
        return WindowVectors(pool(vectors, windows), vectors.astype(np.float16), windows.indptr)

    def spans(self, text: str) -> np.ndarray:
        """(n_windows, 2) int64 code points where each window that :meth:`encode` makes of a text lies."""
        return spans(self.tokenizer, text, self.max_length - self._n_special)

    def sequences(self, ids: np.ndarray, lengths: np.ndarray) -> np.ndarray:
        """(n, dim) float32 unit vectors of token sequences laid end to end, special ones included.

        ``ids`` (n_tokens,) int64; ``lengths`` (n,), each from 1 to ``max_length``.

        Raises:
            InputError: the model gives NaN or infinity, also in fp32.
        """
        texts = Windows(ids, np.cumsum(lengths) - lengths, lengths, np.arange(len(lengths) + 1))
        none = np.zeros(0, np.int64)
        vectors = np.zeros((len(lengths), self.dim), np.float32)

        def compute(rows: np.ndarray, forward: Forward) -> np.ndarray:
            return forward(lay(texts, rows, none, none), lengths[rows])

        for rows, found in self._batched(lengths, lambda rows: compute(rows, self._forward)):
            vectors[rows] = found if np.isfinite(found).all() else compute(rows, self._exact)
        if not np.isfinite(vectors).all():
            raise InputError(f"encoder {self.name}: NaN or infinity for some texts, also in fp32")
        return vectors

    def encode_to(
        self,
        directory: Path,
        shards: Iterable[Sequence[str]],
        progress: Callable[[int], None] | None = None,
        dtype: str = "float32",
    ) -> None:
        """Vectors of any number of texts into a directory (``xmc.encoders.writer``), a shard at a time."""
        with VectorWriter(Path(directory), self.dim, dtype) as writer:
            for texts in shards:
                writer.append(self.encode(texts, progress))

    @property
    def around(self) -> tuple[np.ndarray, np.ndarray]:
        """The special token ids before and after a text."""
        return self._prefix, self._suffix

    @property
    def _n_special(self) -> int:
        return len(self._prefix) + len(self._suffix)

    def _vectors(self, windows: Windows) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        """Batches of window rows with their vectors."""
        return self._batched(windows.lengths + self._n_special, lambda rows: self._compute(windows, rows))

    def _batched(
        self, lengths: np.ndarray, compute: Callable[[np.ndarray], np.ndarray]
    ) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        """Batches of rows with what ``compute`` makes of them, in parallel, each by one thread.

        ``lengths`` (n,): tokens of each row, special ones included.
        """
        import torch

        widths = self._forward.widths(lengths)
        budget = self._forward.budget
        if self.device == "cpu":
            budget = int(np.clip(widths.sum() // 8, SMALLEST, budget))
        rows = list(batches(widths, budget, self._forward.mixed))
        # Threads that each take a batch do without the barriers inside every operation that threads which
        # share a batch would need, and the result does not depend on how many there are. torch counts threads
        # for each calling thread; only the number for threads yet to come is global, and is put back.
        before = torch.get_num_threads()
        try:
            with ThreadPoolExecutor(self._n_workers, "encode", torch.set_num_threads, (1,)) as workers:
                found = cast(_Computed, workers.map(compute, rows))
                with closing(found):  # what has not begun never will, where not all are taken
                    yield from zip(rows, found, strict=True)
        finally:
            torch.set_num_threads(before)

    @property
    def _n_workers(self) -> int:
        # On a GPU the second one prepares a batch while the first waits for its result.
        return self.threads if self.device == "cpu" else 2

    def _compute(self, windows: Windows, rows: np.ndarray, forward: Forward | None = None) -> np.ndarray:
        return (forward or self._forward)(*self.laid(windows, rows))

    def _again(self, windows: Windows, rows: np.ndarray, names: Sequence[str] | None) -> np.ndarray:
        """The vectors of a batch that came out with NaN or infinity, in fp32."""
        vectors = self._compute(windows, rows, self._exact)
        bad = ~np.isfinite(vectors).all(axis=1)
        if bad.any():
            texts = np.unique(windows.owner[rows[bad]])
            named = some([names[i] if names is not None else str(i) for i in texts])
            raise InputError(f"encoder {self.name}: NaN or infinity for text {named}, also in fp32")
        return vectors

    @cached_property
    def _exact(self) -> Forward:
        """The ``transformers`` model in fp32, read only when a batch needs it."""
        from xmc.encoders.forward import PaddedForward

        return PaddedForward(
            pretrained.load_model(self._folder), self.pooling, self.max_length, self.device, "fp32"
        )

    def _start(self, model: nn.Module) -> Forward:
        from xmc.encoders import bert
        from xmc.encoders.forward import PaddedForward

        packed = self.device == "cpu" and self.dtype != "fp16" and bert.fits(model)
        if self.dtype == "int8" and not (packed and bert.fits_int8(model)):
            raise SettingError(
                f"dtype=int8: device={self.device}, model {self.name}; wanted cpu, "
                "a BERT-like model, and torch with 8-bit products for this processor; use dtype=auto"
            )
        if packed:
            return bert.PackedBert(model, self.pooling, self.dtype)
        return PaddedForward(model, self.pooling, self.max_length, self.device, self.dtype)

    def _probe(self) -> int:
        """The width of the model's vectors, found by encoding a letter: what cannot is no text encoder."""
        try:
            ids, counts = tokenise(self.tokenizer, ["a"])
            return self._compute(cut(ids, counts, self.max_length), np.array([0])).shape[1]
        except Exception as e:  # whatever a model that wants pictures or sound raises
            raise InputError(
                f"encoder {self.name}: not a text encoder ({type(e).__name__}: {e})"[:300]
            ) from e


class _Progress:
    """Counts windows down and reports texts as their last window is done."""

    def __init__(self, windows: Windows, report: Callable[[int], None] | None):
        self._left, self._owner, self._report = np.diff(windows.indptr), windows.owner, report
        self._say(int((self._left == 0).sum()))

    def done(self, rows: np.ndarray) -> None:
        texts, n = np.unique(self._owner[rows], return_counts=True)
        self._left[texts] -= n
        self._say(int((self._left[texts] == 0).sum()))

    def _say(self, n: int) -> None:
        if self._report and n:
            self._report(n)


def _name(name_or_path: str) -> str:
    if name_or_path in pretrained.DEFAULT_NAMES:
        return pretrained.DEFAULT
    path = Path(name_or_path).expanduser()
    return path.resolve().name if path.is_dir() else name_or_path


def _length(folder: Path, wanted: int | None, limit: int) -> int:
    if wanted is None:
        kept = pretrained.read_json(folder, pretrained.SETTINGS).get("max_length")
        if kept is None:
            return min(MAX_LENGTH, limit)
        if type(kept) is not int or not 8 <= kept <= limit:
            raise InputError(
                f"{folder / pretrained.SETTINGS}: max_length {kept!r}: wanted 8 to {limit} tokens"
            )
        return kept
    if not 8 <= wanted <= limit:
        raise SettingError(
            f"encoder.max_length={wanted}: wanted 8 to {limit} tokens, what {folder.name} takes"
        )
    return wanted


def _device(device: str) -> str:
    import torch

    if device == "auto":
        return "cuda" if torch.cuda.is_available() else "cpu"
    kind, _, number = device.partition(":")
    if kind not in ("cpu", "cuda") or (number and not number.isdecimal()):
        raise SettingError(f"device={device}: wanted auto, cpu, cuda or cuda:N")
    if kind == "cuda" and int(number or 0) >= torch.cuda.device_count():
        raise ResourceError(
            f"device={device}: torch finds {torch.cuda.device_count()} CUDA devices; use device=cpu"
        )
    return device


def _dtype(dtype: str, device: str) -> str:
    import torch

    if dtype == "auto":
        fast = torch.cuda.is_bf16_supported() if device != "cpu" else _cpu_has_bf16()
        return "bf16" if fast else "fp32"
    require_one_of("dtype", dtype, DTYPES)
    return dtype


def _cpu_has_bf16() -> bool:
    """Whether the CPU multiplies bf16 matrices in hardware (AMX or AVX512-BF16)."""
    import torch

    names = ("_is_amx_tile_supported", "_is_avx512_bf16_supported")
    return any(bool(getattr(torch.cpu, name, bool)()) for name in names)
