"""Several processes that tune one tower together, as ``torchrun`` starts them.

The first leads: it reads, draws the steps, computes their losses, moves the weights, writes files, and does
all other work alone. The others follow: of each step's windows they compute a share of the vectors, and that
share's part of the gradients. So the labels of a step are wrong ones for all its documents, whichever process
computed them, and the result is that of one process up to rounding. Followers read the model's files, touch
no others, and leave when the tuning is over, however it ends.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, distributed, nn

from xmc.encoders.dense import DenseTower
from xmc.errors import InputError, ResourceError, SettingError
from xmc.notices import notify
from xmc.settings import RunSettings, TrainingSettings
from xmc.train.embedder import Embedder

JOIN, EMBED, GRADIENTS, LEAVE = range(4)  # what the leader asks the followers for
# Followers wait while the leader reads. It need not be short: who dies breaks the connections at once.
PATIENCE = timedelta(days=7)


class Team:
    """What the leader does with the others; with ``n`` = 1 it is alone."""

    def __init__(self, n: int = 1) -> None:
        self._n = n

    def join(self, tower: DenseTower) -> None:
        """The others load the tower, too."""
        if self._n > 1:
            _say(JOIN)
            _share([_digest(tower)])

    def vectors(self, embedder: Embedder, ids: np.ndarray, lengths: np.ndarray) -> Tensor:
        """What ``embedder(ids, lengths)`` gives, computed by all."""
        if self._n == 1:
            return embedder(ids, lengths)
        _say(EMBED, len(lengths), len(ids))
        _share([*embedder.weights.values(), torch.from_numpy(ids), torch.from_numpy(lengths)])
        vectors: Tensor = _Together.apply(embedder(ids, lengths, 0, self._n))
        return vectors

    def add_up(self, weights: Iterable[nn.Parameter]) -> None:
        """After the leader's own ``backward``: the gradients of all."""
        if self._n > 1:
            _add_up(weights)

    def dismiss(self) -> None:
        """Let the others go; from here on the leader is alone. Does no harm a second time."""
        if self._n > 1:
            self._n = 1
            with suppress(RuntimeError):  # they are gone
                _say(LEAVE)


_team: ContextVar[Team | None] = ContextVar("team", default=None)


def team() -> Team:
    """The team that this process leads, which is mostly itself alone."""
    return _team.get() or Team()


def following() -> bool:
    """Whether this process was started as another than the first of several."""
    return _number("WORLD_SIZE", 1) > 1 and _number("RANK", 0) > 0


@contextmanager
def leading(settings: TrainingSettings) -> Iterator[None]:
    """The team of this process inside, if it was started as the first of several.

    Raises:
        SettingError: ``device`` names one GPU for all of them.
        ResourceError: there are fewer GPUs than processes.
    """
    n = _number("WORLD_SIZE", 1)
    if n == 1 or not _tunes(settings):
        if n > 1:
            notify([f"{n} processes, and no transformer to train (train.dense): the first does all"])
        yield
        return
    with _connected(settings.run):
        mine = Team(n)
        token = _team.set(mine)
        try:
            yield
        finally:
            _team.reset(token)
            mine.dismiss()


def follow(settings: TrainingSettings, start: str | Path | None = None) -> None:
    """Do what the leader asks for, until it needs no one; ``start``: the model that training goes on from.

    Raises:
        InputError: the model here is another than the leader's.
        SettingError, ResourceError: as :func:`leading`.
    """
    if not _tunes(settings):
        return
    for number in (signal.SIGTERM, signal.SIGINT):  # there is nothing to put in order, and waiting is deaf
        signal.signal(number, signal.SIG_DFL)
    if start is not None:
        tuned = replace(settings.encoder, dense=str(Path(start) / "encoder" / "dense"))
        settings = replace(settings, encoder=tuned)
    with _connected(settings.run):
        follower = _Follower(settings)
        while follower.obey():
            pass


class _Follower:
    def __init__(self, settings: TrainingSettings) -> None:
        self._settings = settings
        self._embedder: Any = None
        self._vectors = torch.zeros(0)

    def obey(self) -> bool:
        """Do the next thing; False when it is to leave."""
        what, n_windows, n_tokens = _heard()
        if what == JOIN:
            self._join()
        elif what == EMBED:
            self._embed(n_windows, n_tokens)
        elif what == GRADIENTS:
            self._gradients()
        return what != LEAVE

    def _join(self) -> None:
        encoder, run = self._settings.encoder, self._settings.run
        tower = DenseTower.load(encoder.dense, encoder.max_length, run.device, run.dtype)
        digest = torch.zeros_like(_digest(tower))
        _share([digest])
        if not torch.equal(digest, _digest(tower)):
            raise InputError(
                f"encoder {tower.name}: other weights than those of the first process; "
                "wanted the same files for all of them"
            )
        self._embedder = Embedder(tower, self._settings.train.dense, self._settings.run.seed)

    def _embed(self, n_windows: int, n_tokens: int) -> None:
        ids, lengths = torch.zeros(n_tokens, dtype=torch.int64), torch.zeros(n_windows, dtype=torch.int64)
        _share([*self._embedder.weights.values(), ids, lengths])
        rank, n = distributed.get_rank(), distributed.get_world_size()
        self._vectors = self._embedder(ids.numpy(), lengths.numpy(), rank, n)
        distributed.reduce(self._vectors.detach().clone(), 0)

    def _gradients(self) -> None:
        gradient = torch.zeros_like(self._vectors)
        _share([gradient])
        for weight in self._embedder.weights.values():
            weight.grad = None
        if self._vectors.requires_grad:  # it had a share
            self._vectors.backward(gradient)
        _add_up(self._embedder.weights.values())


class _Together(torch.autograd.Function):
    """The leader's rows and zeros (n_windows, dim) to the rows of all; gradients go to all."""

    @staticmethod
    def forward(ctx: Any, own: Tensor) -> Tensor:
        every = own.detach().clone()
        distributed.reduce(every, 0)
        return every

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> Tensor:
        gradient = gradients[0].contiguous()
        _say(GRADIENTS)
        _share([gradient])
        return gradient


def _add_up(weights: Iterable[nn.Parameter]) -> None:
    """The sum of all processes' gradients, in the leader's; weights that it does not use stay without."""
    for weight in weights:
        distributed.reduce(torch.zeros_like(weight) if weight.grad is None else weight.grad, 0)


def _share(tensors: Iterable[Tensor]) -> None:
    """The leader's numbers into everyone's tensors."""
    for tensor in tensors:
        distributed.broadcast(tensor.detach(), 0)


def _say(what: int, n_windows: int = 0, n_tokens: int = 0) -> None:
    _share([torch.tensor([what, n_windows, n_tokens])])


def _heard() -> tuple[int, int, int]:
    message = torch.zeros(3, dtype=torch.int64)
    _share([message])
    what, n_windows, n_tokens = message.tolist()
    return what, n_windows, n_tokens


def _digest(tower: DenseTower) -> Tensor:
    """(32,) int64: what the tower's weights are known by."""
    return torch.tensor(list(bytes.fromhex(tower.sha256)))


def _tunes(settings: TrainingSettings) -> bool:
    return settings.train.dense != "frozen" and settings.encoder.dense != "none"


@contextmanager
def _connected(run: RunSettings) -> Iterator[None]:
    """The processes joined: numbers on a CPU travel by Gloo, those on a GPU by NCCL."""
    on_gpu = run.device != "cpu" and torch.cuda.is_available()
    if on_gpu:
        _take_gpu(run.device)
    distributed.init_process_group("cpu:gloo,cuda:nccl" if on_gpu else "gloo", timeout=PATIENCE)
    try:
        yield
    finally:
        distributed.destroy_process_group()


def _take_gpu(device: str) -> None:
    """Make the GPU of this process's number on its machine the one that ``cuda`` means."""
    if device.startswith("cuda:"):
        raise SettingError(f"device={device} and several processes: wanted auto, cuda or cpu")
    number, n_gpus = _number("LOCAL_RANK", 0), torch.cuda.device_count()
    if number >= n_gpus:
        raise ResourceError(
            f"process {number + 1} on this machine, and torch finds {n_gpus} CUDA devices; "
            "start as many processes as there are, or use device=cpu"
        )
    torch.cuda.set_device(number)


def _number(name: str, default: int) -> int:
    value = os.environ.get(name, "")
    return int(value) if value.isdecimal() else default
