r"""Label search beside raw FAISS: recall, speed, memory, and what changes cost. JSON lines, then a table.

    python benchmarks/index_recall.py [--labels F | --model MODEL] [--docs F] [--rows N] [--kinds ...]

Vectors are those of the lexical tower for the texts of a label file, or those of a model that was built
before; without either they are drawn around random centres. ``--rows`` takes a part of them, or makes more:
copies with seeded noise, written to a file as they are made. So 10 million of them need no encoding:

    python benchmarks/index_recall.py --labels F --rows 10000000 --dim 384 --kinds ivf_pq --recall 0.95 \
        --rounds 1 --no-flat

``--no-flat`` leaves FAISS flat out, which holds all vectors in memory once more. Queries are encoded
documents, or noisy vectors. All contestants take turns, and the best round of each counts; wall and CPU time
depend on the machine and on its load, the ratios less. ``peak_bytes``: of this process so far, mapped files
among them.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import resource
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch

from xmc.artifacts import ArtifactWriter, open_artifact
from xmc.data.formats import open_corpus, read_labels
from xmc.encoders.dual import DualEncoder
from xmc.encoders.lexical import LexicalSettings, LexicalTower
from xmc.index.base import LabelIndex
from xmc.index.fitting import ANN_KINDS
from xmc.index.kernel import pair_scores, rank_pairs
from xmc.index.kinds import load_index, make_index, save_index
from xmc.index.native import load_faiss
from xmc.label_text import label_texts

NOISE = 0.5  # length of the noise beside a unit vector
PART = 50_000
KIND = "index"
Tasks = dict[str, Callable[[np.ndarray], object]]
faiss = load_faiss()


def main() -> None:
    options = parse()
    torch.set_num_threads(options.threads)
    faiss.omp_set_num_threads(options.threads)
    with tempfile.TemporaryDirectory(dir=options.work) as work:
        vectors, queries = data(options, Path(work))
        rows = []
        for row in measured(vectors, queries, options, Path(work)):
            made = {"rows": len(vectors), "dim": vectors.shape[1], "threads": options.threads}
            # Linux counts kibibytes.
            peak = 1024 * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
            rows.append(made | row | {"peak_bytes": peak})
            print(json.dumps(rows[-1]), flush=True)
    table(rows)


def measured(vectors: np.ndarray, queries: np.ndarray, options: Any, work: Path) -> Iterator[dict[str, Any]]:
    """A row for exact search, and one for each kind."""
    tuning, asked = queries[::2][:256], queries[1::2][: options.batch]
    index, seconds = built("exact", vectors, tuning, options.recall)
    answer = index.search(asked, options.k)
    flat = None if options.no_flat else faiss.IndexFlatIP(vectors.shape[1])
    beside: Tasks = {}
    if flat is not None:
        flat.add(vectors)
        beside["flat"] = partial(flat.search, k=options.k)
    exact = partial(index.search, k=options.k)
    row: dict[str, Any] = {"kind": "exact", "build_s": seconds}
    row |= speeds({"ours": exact} | beside, asked, options)
    if flat is not None:
        row["same_ranks"] = same_ranks(index, flat, asked, options.k)
    yield row | lasting(index, work, asked)
    for kind in options.kinds:
        approximate, seconds = built(kind, vectors, tuning, options.recall)
        recall = np.mean(approximate.search(asked, options.k).scores >= answer.scores[:, -1:])
        row = {"kind": kind, "built_as": approximate.built_as, "notice": approximate.notice}
        row |= {"choice": approximate.choice, "build_s": seconds, "recall": float(recall)}
        changes = lasting(approximate, work, asked)
        raw = raw_faiss(work / kind / KIND, options.k)
        tasks = {"ours": partial(approximate.search, k=options.k)} | beside | ({"faiss": raw} if raw else {})
        yield row | speeds(tasks, asked, options) | changes


def built(kind: str, vectors: np.ndarray, queries: np.ndarray, recall: float) -> tuple[LabelIndex, float]:
    """The index over the vectors, tuned on the queries, and the seconds it took."""
    start = time.perf_counter()
    index = make_index(kind, vectors.shape[1], "ip", recall=recall)
    index.add(np.arange(len(vectors)), vectors)
    index.compact(queries)
    return index, time.perf_counter() - start


def raw_faiss(directory: Path, k: int) -> Callable[[np.ndarray], object] | None:
    """FAISS alone with the saved structure and the effort that was found; None for exact search."""
    described = json.loads((directory / "index.json").read_text())["structure"]
    if described is None:
        return None
    index = faiss.read_index(str(directory / "index.faiss"))
    made: Any = faiss.SearchParametersHNSW if described["name"] == "hnsw" else faiss.SearchParametersIVF
    breadth = "efSearch" if described["name"] == "hnsw" else "nprobe"
    params = made(**{breadth: described["breadth"]})
    more = index.d
    return lambda q: index.search(
        np.pad(q, ((0, 0), (0, more - q.shape[1]))), k * described["fetch"], params=params
    )


def speeds(tasks: Tasks, queries: np.ndarray, options: Any) -> dict[str, float]:
    """Queries a second of each, in a batch and one by one, and by how much the first beats the others."""
    found: dict[str, float] = {}
    for name, asked, size in (("batch", queries, len(queries)), ("single", queries[: options.singles], 1)):
        best = dict.fromkeys(tasks, (float("inf"), float("inf")))
        for _ in range(options.rounds):
            for task, search in tasks.items():
                start = time.perf_counter(), time.process_time()
                for at in range(0, len(asked), size):
                    search(asked[at : at + size])
                spent = time.perf_counter() - start[0], time.process_time() - start[1]
                best[task] = (min(best[task][0], spent[0]), min(best[task][1], spent[1]))
        ours = best["ours"]
        for task, spent in best.items():
            found[f"{name}_qps_{task}"] = len(asked) / spent[0]
            if task != "ours":
                found[f"{name}_wall_times_{task}"] = spent[0] / ours[0]
                found[f"{name}_cpu_times_{task}"] = spent[1] / ours[1]
    return found


def same_ranks(index: LabelIndex, flat: Any, queries: np.ndarray, k: int) -> float:
    """Share of queries for which FAISS's candidates, scored by our kernel, are the same in the same order."""
    found = flat.search(queries, k + k // 2)[1]
    of_query = np.repeat(np.arange(len(queries)), found.shape[1])
    scores = pair_scores(torch.from_numpy(queries), index.vectors, of_query, found.ravel())
    rows, _ = rank_pairs(of_query, found.ravel(), scores, len(queries), k)
    return float(np.mean((rows == index.search(queries, k).rows).all(axis=1)))


def lasting(index: LabelIndex, work: Path, queries: np.ndarray) -> dict[str, float]:
    """The index written, loaded by another process, changed: bytes, and seconds until it is durable."""
    path = work / index.kind
    with ArtifactWriter(path, KIND) as writer:
        save_index(index, writer.path / KIND)
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        resident = pool.apply(resident_memory, (path / KIND, queries, torch.get_num_threads()))
    stored = sum(file.stat().st_size for file in (path / KIND).iterdir())
    found = {"stored_bytes": stored, "resident_bytes": resident, "resident_times": resident / stored}
    loaded = load_index(path / KIND)
    new = loaded.n_rows + np.arange(1000)
    spent, loaded = changed(path, loaded, lambda i: i.add(new, i.vectors(np.arange(1000))))
    found["add_1000_s"], found["add_1000_cpu_s"] = spent
    spent, _ = changed(path, loaded, lambda i: i.retire(np.arange(1000)))
    found["retire_1000_s"], found["retire_1000_cpu_s"] = spent
    return found


def resident_memory(directory: Path, queries: np.ndarray, threads: int) -> int:
    """Bytes by which loading the index and a batch of queries make this process larger."""
    torch.set_num_threads(threads)
    before = resident_now()
    load_index(directory).search(queries, 100)
    return resident_now() - before


def resident_now() -> int:
    """Bytes of memory that this process has, mapped files among them."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def changed(
    path: Path, before: LabelIndex, change: Callable[[LabelIndex], None]
) -> tuple[tuple[float, float], LabelIndex]:
    """Wall and CPU seconds until a change of a loaded index is on disk, and the index with it."""
    start = time.perf_counter(), time.process_time()
    after = before.copy()
    change(after)
    old = open_artifact(path, KIND)
    with ArtifactWriter(path, KIND, replace=True) as writer:
        for name in save_index(after, writer.path / KIND, before):
            writer.keep(old, name)
    return (time.perf_counter() - start[0], time.process_time() - start[1]), after


def data(options: Any, work: Path) -> tuple[np.ndarray, np.ndarray]:
    """(n, dim) vectors, mapped from a file where they are many, and (n_queries, dim) queries."""
    rng = np.random.default_rng(options.seed)
    if options.model:
        given: np.ndarray = np.load(options.model / "index" / "vectors.npy", mmap_mode="r")
        queries = of_model(options, given[:0])
    elif options.labels:
        given, queries = encoded(options)
    else:
        centres = rng.standard_normal((2000, options.dim), dtype=np.float32)
        given, queries = centres / np.linalg.norm(centres, axis=1, keepdims=True), centres[:0]
    n = options.rows or len(given)
    vectors = np.lib.format.open_memmap(work / "given.npy", "w+", np.float32, (n, given.shape[1]))
    for start in range(0, n, PART):
        at = np.arange(start, min(start + PART, n))
        chosen = given[at % len(given)] if n >= len(given) else given[at * len(given) // n]
        vectors[at] = (
            chosen if at[-1] < len(given) and (options.model or options.labels) else noisy(chosen, rng)
        )
    vectors.flush()
    # As an index maps them: what cannot be written to is held without a copy.
    vectors = np.load(work / "given.npy", mmap_mode="r")
    if not len(queries):
        queries = noisy(
            vectors[np.sort(rng.choice(n, 2 * options.batch, replace=n < 2 * options.batch))], rng
        )
    return vectors, queries


def noisy(vectors: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """(n, dim) the vectors with noise of ``NOISE`` times their length, as long as before."""
    lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
    noise = rng.standard_normal(vectors.shape, dtype=np.float32) * (
        lengths * NOISE / np.sqrt(vectors.shape[1])
    )
    moved = vectors + noise
    return moved * (lengths / np.linalg.norm(moved, axis=1, keepdims=True))


def encoded(options: Any) -> tuple[np.ndarray, np.ndarray]:
    """(n_labels, dim) and (n_docs, dim) vectors of the lexical tower; those that are zero are left out."""
    texts = label_texts(read_labels(options.labels))
    pieces = [texts[at : at + PART] for at in range(0, len(texts), PART)]
    tower = LexicalTower.fit((), iter(pieces), LexicalSettings(dim=options.dim))
    vectors = np.concatenate([tower.encode(piece) for piece in pieces])
    docs = (
        []
        if options.docs is None
        else [batch.texts or [] for batch in open_corpus([options.docs]).batches(PART)]
    )
    queries = np.concatenate([vectors[:0], *(tower.encode(piece) for piece in docs)])
    return vectors[vectors.any(axis=1)], queries[queries.any(axis=1)]


def of_model(options: Any, none: np.ndarray) -> np.ndarray:
    """(n_docs, dim + 1) documents as the model asks its index for them."""
    if options.docs is None:
        return none
    encoder = DualEncoder.load(options.model / "encoder")
    towers = np.concatenate(
        [encoder.encode(part).towers for part in open_corpus([options.docs]).batches(PART)]
    )
    towers = towers[towers.any(axis=1)] * encoder.scale
    return np.hstack([towers, np.ones((len(towers), 1), np.float32)])


def table(rows: list[dict[str, Any]]) -> None:
    """The rows, a column each, on standard error."""
    for name in dict.fromkeys(name for row in rows for name in row):
        cells = [row.get(name, "") for row in rows]
        shown = [f"{cell:.4g}" if isinstance(cell, float) else str(cell) for cell in cells]
        print(f"{name:28}" + "".join(f"{cell:>16.16}" for cell in shown), file=sys.stderr)


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Label search beside raw FAISS.")
    parser.add_argument("--labels", type=Path, help="label file, encoded with the lexical tower")
    parser.add_argument("--docs", type=Path, help="documents that are the queries")
    parser.add_argument("--model", type=Path, help="model whose index vectors are taken")
    parser.add_argument("--rows", type=int, help="vectors; by default all, or 2,000 drawn ones")
    parser.add_argument("--kinds", nargs="*", default=["hnsw", "ivf_sq8"], choices=[*ANN_KINDS, "auto"])
    parser.add_argument("--recall", type=float, default=0.99)
    parser.add_argument("--dim", type=int, default=512)
    parser.add_argument("--batch", type=int, default=1024)
    parser.add_argument("--singles", type=int, default=20)
    parser.add_argument("--no-flat", action="store_true", help="without FAISS flat, a second copy in memory")
    parser.add_argument("-k", type=int, default=100)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--work", type=Path, help="folder for files, by default the system's")
    return parser.parse_args()


if __name__ == "__main__":
    main()
