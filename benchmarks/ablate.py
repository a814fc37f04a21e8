"""How well the trained tower alone ranks labels, under one or more settings of training.

    python benchmarks/ablate.py FOLDER [train.loss=soft_top_k ...] [--seeds 0 1]

FOLDER holds ``labels``, ``train`` and ``dev`` as ``.jsonl.gz``. Words alone are encoded, once for all seeds.
The first 300 documents of dev choose the epoch, the others are measured: the trained score, without the mix,
the neighbours and the reranker that a model has besides. So what training changes shows here in seconds, and
more than in the whole model. A line for each seed; R@100 is over all pairs of document and gold label.
"""

from __future__ import annotations

import argparse
import tempfile
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path

import numpy as np
import scipy.sparse as sp

from xmc.builder import Builder
from xmc.cli import run_script
from xmc.config import settings_of
from xmc.data.options import ReadReport
from xmc.encoders.labels import LabelVectors
from xmc.encoders.writer import read_features
from xmc.propensity import inverse_propensity
from xmc.settings import TrainingSettings
from xmc.source import read_source
from xmc.train.data import PROPENSITY, mean_ndcg, mean_psp
from xmc.train.run import Split, Trained, train

N_JUDGES = 300
DEEP, ZERO_DEEP = 100, 50


class Ablation:
    """The documents and labels of a folder, encoded into ``work``."""

    def __init__(self, folder: Path, settings: TrainingSettings, work: Path) -> None:
        labels, docs, dev = (folder / f"{name}.jsonl.gz" for name in ("labels", "train", "dev"))
        self.source = read_source(labels, [docs], None, settings.read, ReadReport(), [dev])
        self.builder = Builder(self.source, settings, work, lambda lines: None)
        self.labels: LabelVectors = self.builder._labels()[0]
        self.towers = self.builder._documents()[0]
        self.work, n, n_own = work, len(self.source.ids), self.source.n_own
        self.docs, self.judges = np.arange(n_own), np.arange(n_own, min(n, n_own + N_JUDGES))
        self.measured = np.arange(n_own + len(self.judges), n)

    def trained(self, seed: int) -> Trained:
        """Trained on all documents of the folder's ``train``."""
        source, gold = self.builder._training_source(self.labels, self.towers), self.source.gold
        split = Split(self.docs, self.judges, np.zeros(gold.shape[1], bool), None)
        with tempfile.TemporaryDirectory(dir=self.work) as work:
            return train(
                replace(source, seed=seed),
                gold,
                split,
                Path(work),
                lambda line: None,
                lambda *_: nullcontext(lambda n: None),
            )

    def line(self, trained: Trained) -> str:
        """P@1, nDCG@5, PSP@5 and recall, all in percent, of the measured documents."""
        features = read_features(self.work / "features", self.builder.encoder.lexical.n_features)
        dense = np.asarray(self.towers[self.measured])[:, : self.builder.encoder.dense_dim]
        scores = trained.tower.encode(features[self.measured], dense) @ trained.prototypes[:, :-1].T
        scores += trained.prototypes[:, -1]
        scores[:, ~trained.prototypes.any(axis=1)] = -np.inf
        return _line(np.argsort(-scores, axis=1, kind="stable")[:, :DEEP], self.source.gold, self)


def _line(ranked: np.ndarray, gold: sp.csr_matrix, of: Ablation) -> str:
    n, frequency = len(ranked), np.bincount(gold[of.docs].indices, minlength=gold.shape[1])
    wanted, unseen = gold[of.measured], frequency == 0
    rows = np.repeat(np.arange(n), ranked.shape[1])
    hits = np.asarray(wanted[rows, ranked.ravel()]).reshape(ranked.shape) > 0
    zero = (hits & unseen[ranked])[:, :ZERO_DEEP].sum() / max(1, wanted[:, unseen].nnz)
    inverse = inverse_propensity(frequency, len(of.docs), *PROPENSITY)
    figures = {
        "P@1": hits[:, 0].mean(),
        "nDCG@5": mean_ndcg(ranked[:, :5], wanted),
        "PSP@5": mean_psp(ranked[:, :5], wanted, inverse),
        f"zero R@{ZERO_DEEP}": zero,
        f"R@{DEEP}": hits.sum() / wanted.nnz,
    }
    return " ".join(f"{name} {100 * value:.1f}" for name, value in figures.items())


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("folder", type=Path)
    parser.add_argument("settings", nargs="*", help="NAME=VALUE, as of xmc train")
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1])
    options = parser.parse_intermixed_args()
    settings = settings_of("train", ["preset=fast", *options.settings])
    with tempfile.TemporaryDirectory() as work:
        ablation = Ablation(options.folder, settings, Path(work))
        for seed in options.seeds:
            trained = ablation.trained(seed)
            print(f"seed {seed}: {ablation.line(trained)}, best epoch {trained.n_epochs}", flush=True)


if __name__ == "__main__":
    run_script(main)
