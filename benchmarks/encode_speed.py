"""How fast the dense tower encodes, beside the fastest bare ``transformers`` loop found for the same windows.

    python benchmarks/encode_speed.py [--docs FILE.jsonl[.gz]] [--n 100] [--rounds 3] [--threads 2]
    python benchmarks/encode_speed.py --dtypes fp32 int8 [...]

The bare loops get their windows tokenised, sorted by length and cut into batches beforehand: they only pad,
run the model, pool and normalise. The tower starts from the texts. Attention kernel, dtype and batch size of
the loop are screened on a part of the windows; the fastest few then run in turn with the tower. Ratios are
medians over rounds, of wall and of CPU time; on a machine with other work little else means much.

With ``--dtypes`` the tower's number formats run in turn instead, on windows of 128 tokens and on first lines,
with their ratio to the first one and the cosine of their vectors with its.
"""

from __future__ import annotations

import argparse
import gzip
import itertools
import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch.nn import functional

from xmc.encoders import pretrained
from xmc.encoders.dense import DenseTower
from xmc.encoders.leads import lead
from xmc.encoders.windows import cut, lay, tokenise

HERE = Path(__file__).parent
DTYPES = {"fp32": torch.float32, "bf16": torch.bfloat16}
BATCH_SIZES = (8, 16, 32, 64)
FINALISTS = 2


class BareLoop:
    """Sorted windows through ``AutoModel`` in padded batches of ``size``."""

    def __init__(self, model: Any, kind: str, size: int):
        self.model, self.kind, self._size = model, kind, size
        self.name = f"{kind}, batches of {size}"

    @torch.inference_mode()
    def __call__(self, windows: list[np.ndarray]) -> np.ndarray:
        """(n_windows, dim) unit vectors of windows sorted by length, longest first."""
        found = []
        for i in range(0, len(windows), self._size):
            batch = windows[i : i + self._size]
            width = -(-len(batch[0]) // 8) * 8  # odd widths make torch's bf16 softmax slow
            mask = np.arange(width) < np.array([len(w) for w in batch])[:, None]
            ids = np.zeros(mask.shape, np.int64)
            ids[mask] = np.concatenate(batch)
            m = torch.from_numpy(mask)
            hidden = self.model(input_ids=torch.from_numpy(ids), attention_mask=m.long())[0]
            mean = (hidden * m[:, :, None]).sum(1) / m.sum(1, keepdim=True)
            found.append(functional.normalize(mean.float(), dim=1))
        return torch.cat(found).numpy()


def timed(run: Callable[[], object]) -> tuple[float, float]:
    """Wall and CPU seconds of one run."""
    wall, cpu = time.perf_counter(), time.process_time()
    run()
    return time.perf_counter() - wall, time.process_time() - cpu


def windows_of(tower: DenseTower, texts: list[str], length: int) -> list[np.ndarray]:
    """The tower's own windows, longest first."""
    prefix, suffix = (np.array(x) for x in pretrained.special_tokens(tower.tokenizer))
    windows = cut(*tokenise(tower.tokenizer, texts), length - len(prefix) - len(suffix))
    order = np.argsort(-windows.lengths, kind="stable")
    return [lay(windows, order[i : i + 1], prefix, suffix) for i in range(len(order))]


def screen(windows: list[np.ndarray]) -> list[BareLoop]:
    """The fastest loops by CPU time: of kernels and dtypes on 16 windows, then of batch sizes on 64."""
    from transformers import AutoModel

    folder = pretrained.find("default")
    models = {}
    for attention, dtype in itertools.product(("eager", "sdpa"), DTYPES):
        model = AutoModel.from_pretrained(folder, attn_implementation=attention)
        models[f"{attention}, {dtype}"] = model.to(DTYPES[dtype]).eval()
    loops = best([BareLoop(model, name, 16) for name, model in models.items()], some(windows, 16))
    sizes = [BareLoop(loop.model, loop.kind, size) for loop in loops for size in BATCH_SIZES]
    return best(sizes, some(windows, 64))


def best(loops: list[BareLoop], windows: list[np.ndarray]) -> list[BareLoop]:
    seconds = [min(timed(lambda: loop(windows))[1] for _ in range(2)) for loop in loops]  # noqa: B023
    return [loops[i] for i in np.argsort(seconds)[:FINALISTS]]


def some(windows: list[np.ndarray], n: int) -> list[np.ndarray]:
    return windows[:: max(1, len(windows) // n)]


def compare(texts: list[str], length: int, rounds: int, threads: int) -> float:
    """Prints one comparison; the tower's tokens per CPU second."""
    tower = DenseTower.load("default", max_length=length, threads=threads)
    windows = windows_of(tower, texts, length)
    n_tokens = sum(map(len, windows))
    loops = screen(windows)
    runs: list[Callable[[], object]] = [lambda: tower.encode(texts)]
    runs += [lambda loop=loop: loop(windows) for loop in loops]  # type: ignore[misc]
    times = np.array([[timed(run) for run in runs] for _ in range(rounds)])  # (rounds, runs, wall and CPU)
    for name, (wall, cpu) in zip(
        ["tower", *(f"bare: {x.name}" for x in loops)], np.median(times, 0), strict=True
    ):
        print(f"  {name:40s} {len(texts) / wall:7.1f} docs/s {n_tokens / wall:8.0f} tokens/s wall "
              f"{n_tokens / cpu:8.0f} tokens/s CPU")  # fmt: skip
    best = times[:, 1:].min(axis=1)
    wall, cpu = np.median(best / times[:, 0], axis=0)
    print(f"  tower / fastest bare loop of each round: {wall:.2f} by wall time, {cpu:.2f} by CPU time\n")
    return float(n_tokens / np.median(times[:, 0, 1]))


def compare_dtypes(texts: list[str], dtypes: list[str], rounds: int, threads: int) -> None:
    """Prints speed and closeness of number formats beside the first, on texts and on their first lines."""
    towers = [DenseTower.load("default", max_length=128, dtype=name, threads=threads) for name in dtypes]
    for what, given in (("windows of at most 128", texts), ("first lines", [lead(t) for t in texts])):
        vectors = [tower.encode(given).vectors for tower in towers]
        runs = [lambda tower=tower: tower.encode(given) for tower in towers]  # noqa: B023
        cpu = np.array([[timed(run)[1] for run in runs] for _ in range(rounds)])
        for i, name in enumerate(dtypes):
            cosine = (vectors[i] * vectors[0]).sum(1)[vectors[0].any(1)]
            speed, ratio = len(given) / np.median(cpu[:, i]), np.median(cpu[:, 0] / cpu[:, i])
            print(f"{what}, {name}: {speed:.1f} docs/CPU s, {ratio:.2f} times {dtypes[0]}, "
                  f"cosine {cosine.min():.4f} at least, {np.median(cosine):.4f} in the middle")  # fmt: skip


def whole(texts: list[str], threads: int) -> None:
    """Prints what whole documents take at the default length."""
    tower = DenseTower.load("default", threads=threads)
    n_tokens = int(tokenise(tower.tokenizer, texts)[1].sum())
    wall, cpu = timed(lambda: tower.encode(texts))
    print(
        f"whole documents, windows of {tower.max_length}: {len(texts)} documents, "
        f"{n_tokens / len(texts):.0f} tokens each: {cpu:.1f} CPU s, {wall:.1f} s; "
        f"{cpu / len(texts) * 1000 / 60:.2f} CPU minutes per 1,000"
    )


def read_texts(path: Path, n: int) -> list[str]:
    opener = gzip.open if path.suffix == ".gz" else open
    with opener(path, "rt", encoding="utf-8", newline="\n") as f:
        return [json.loads(line)["text"] for line in itertools.islice(f, n)]


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--docs", type=Path, default=HERE / "data" / "tib-core-en" / "train.jsonl.gz")
    parser.add_argument("--n", type=int, default=100, help="documents")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--threads", type=int, default=torch.get_num_threads())
    parser.add_argument("--dtypes", nargs="+", help="compare these number formats, the first with the others")
    parser.add_argument("--only-whole", action="store_true", help="time whole documents only")
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    texts = read_texts(options.docs, options.n)
    if options.dtypes:
        compare_dtypes(texts, options.dtypes, options.rounds, options.threads)
        return
    if not options.only_whole:
        speed = {}
        for length in (128, 256):
            print(f"windows of at most {length} tokens, {options.threads} threads")
            speed[length] = compare(texts, length, options.rounds, options.threads)
        print(f"tokens per CPU second at 256 / at 128: {speed[256] / speed[128]:.2f}")
    whole(texts, options.threads)


if __name__ == "__main__":
    main()
