"""Tuning in two processes on a CPU, started as a user starts them, against one process."""

from __future__ import annotations

import os
import random
import subprocess
import sys
from itertools import pairwise
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file

from tests.cases.corpus_t import docs_file, labels_file, xmc
from tests.encoders.tiny import TEXT, tiny_model
from xmc.errors import ResourceError, SettingError
from xmc.settings import EncoderSettings, TrainingSettings, TrainSettings
from xmc.train import processes
from xmc.train.processes import following, leading, team

WORDS = TEXT.replace("##", "").split()
SMALL = ["train.epochs=1", "train.dim=8", "train.max_features=100", "encoder.lexical.dim=16"]
ON_CPU = ["device=cpu", "dtype=fp32", "threads=1"]
TUNED = ["train.dense=full", "train.batch=16", "train.rate=20"]


@pytest.fixture
def arguments(tmp_path: Path) -> list[object]:
    """Of ``xmc train`` but for the output: labels of two words, documents that hold those of two labels."""
    draw = random.Random(0)
    labels = [(f"L{i}", f"{a} {b}") for i, (a, b) in enumerate(pairwise(WORDS))]
    docs = []
    for i in range(48):
        gold = draw.sample(labels, 2)
        text = [*(text for _, text in gold), *draw.choices(WORDS, k=draw.randint(2, 8))]
        docs.append((f"d{i}", f"{draw.choice(WORDS)}\n{' '.join(text)}", [name for name, _ in gold]))
    tiny = tiny_model(tmp_path / "tiny")
    labels_path, docs_path = labels_file(tmp_path / "l.jsonl", labels), docs_file(tmp_path / "d.jsonl", docs)
    return ["--labels", labels_path, "--docs", docs_path, f"encoder.dense={tiny}", *SMALL, *ON_CPU]


def together(*arguments: object) -> subprocess.CompletedProcess[str]:
    """``xmc train`` in two processes."""
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2"]
    named = [str(argument) for argument in arguments]
    return subprocess.run(
        [*command, "-m", "xmc", "train", *named], capture_output=True, text=True, check=False, env=os.environ
    )


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_two_processes_tune_to_the_weights_of_one(arguments, tmp_path):
    assert xmc("train", *arguments, *TUNED, "-o", tmp_path / "one") == 0
    done = together(*arguments, *TUNED, "-o", tmp_path / "two")
    assert done.returncode == 0, done.stderr
    assert done.stderr.count("dense tower, epoch 1") == 1
    one, two = (load_file(tmp_path / name / "encoder/dense/model.safetensors") for name in ("one", "two"))
    before = load_file(tmp_path / "tiny/model.safetensors")
    moved = torch.cat([(one[name] - before[name]).flatten() for name in one])
    apart = torch.cat([(one[name] - two[name]).flatten() for name in one])
    assert moved.norm() > 1e-2
    assert apart.norm() < 0.01 * moved.norm()
    assert not list(tmp_path.glob(".*xmc-build"))


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_all_leave_when_the_first_fails(arguments, tmp_path):
    (tmp_path / "there").mkdir()
    (tmp_path / "there" / "file").write_text("mine")
    done = together(*arguments, *TUNED, "-o", tmp_path / "there")
    assert done.returncode != 0
    assert done.stderr.count("xmc: error: ") == 1
    assert "exitcode  : 2" in done.stderr
    assert [path.name for path in (tmp_path / "there").iterdir()] == ["file"]


def test_without_tuning_the_others_have_nothing_to_do(arguments, tmp_path, monkeypatch):
    monkeypatch.setenv("WORLD_SIZE", "2")
    monkeypatch.setenv("RANK", "1")
    assert xmc("train", *arguments, "train.dense=frozen", "-o", tmp_path / "out") == 0
    assert not list(tmp_path.glob("*out*"))


def test_the_first_goes_on_alone_without_tuning(monkeypatch, capsys):
    monkeypatch.setenv("WORLD_SIZE", "2")
    monkeypatch.setenv("RANK", "0")
    with leading(TrainingSettings()):
        team().dismiss()  # nobody
    assert "2 processes, and no transformer to train" in capsys.readouterr().err
    monkeypatch.setenv("WORLD_SIZE", "1")
    with leading(TrainingSettings(EncoderSettings(), train=TrainSettings(dense="full"))):
        team().dismiss()
    assert not capsys.readouterr().err


@pytest.mark.parametrize(
    ("world", "rank", "answer"), [("2", "1", True), ("2", "0", False), ("1", "0", False), ("", "1", False)]
)
def test_which_process_follows(monkeypatch, world, rank, answer):
    monkeypatch.setenv("WORLD_SIZE", world)
    monkeypatch.setenv("RANK", rank)
    assert following() == answer


def test_each_process_takes_a_gpu_of_its_own(monkeypatch):
    with pytest.raises(SettingError, match="device=cuda:1 and several processes: wanted auto, cuda or cpu"):
        processes._take_gpu("cuda:1")
    monkeypatch.setenv("LOCAL_RANK", str(torch.cuda.device_count()))
    with pytest.raises(ResourceError, match="start as many processes as there are, or use device=cpu"):
        processes._take_gpu("auto")
