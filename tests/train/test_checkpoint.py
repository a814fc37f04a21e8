from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest
import torch

from xmc.artifacts import ArtifactWriter, is_artifact
from xmc.train.checkpoint import Checkpoints

STATE = {"rows": torch.arange(6.0).reshape(2, 3), "uses": torch.tensor([1, 2]), "half": torch.ones(2).half()}


@pytest.fixture
def kept(tmp_path: Path) -> Checkpoints:
    return Checkpoints(tmp_path / "run" / "checkpoints", "data and settings")


def save(kept: Checkpoints, step: int) -> None:
    kept.save(step, {"step": step}, {"at": torch.tensor([step])})


def step_of(kept: Checkpoints) -> Any:
    found = kept.load()
    return None if found is None else (found[0]["step"], int(found[1]["at"]))


def there(kept: Checkpoints) -> list[str]:
    return sorted(path.name for path in kept.directory.iterdir() if is_artifact(path))


def cut(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-1])


def change(path: Path) -> None:
    raw = bytearray(path.read_bytes())
    raw[-1] ^= 1
    path.write_bytes(bytes(raw))


def test_what_was_saved_is_loaded(kept):
    numbers = {"step": 7, "best": 0.1 + 0.2, "done": False, "losses": [1.5, 2.5]}
    kept.save(7, numbers, STATE)
    found = kept.load()
    assert found[0] == numbers
    assert found[1].keys() == STATE.keys()
    for name, value in STATE.items():
        assert found[1][name].dtype == value.dtype
        assert torch.equal(found[1][name], value)


def test_before_any_was_saved_there_is_none(kept):
    assert kept.load() is None
    kept.directory.mkdir(parents=True)
    assert kept.load() is None


def test_the_newest_is_loaded_and_the_one_before_is_dropped(kept):
    for step in (9, 10, 1000):
        save(kept, step)
        assert step_of(kept) == (step, step)
        assert there(kept) == [f"{step:09}"]


def test_a_step_is_saved_once(kept):
    save(kept, 5)
    kept.save(5, {"step": 6}, {"at": torch.tensor([6])})
    assert step_of(kept) == (5, 5)


@pytest.mark.parametrize("name", ["state.safetensors", "numbers.json", "manifest.json"])
@pytest.mark.parametrize("damage", [cut, change, Path.unlink])
def test_a_damaged_one_is_not_loaded_and_does_not_stand_in_the_way(kept, name, damage):
    save(kept, 5)
    damage(kept.directory / "000000005" / name)
    assert kept.load() is None
    save(kept, 5)
    assert step_of(kept) == (5, 5)


@pytest.mark.parametrize("damage", [cut, change, Path.unlink])
def test_a_whole_older_one_takes_the_place_of_a_damaged_one(kept, damage, tmp_path):
    """As after a kill that came before the older one was dropped."""
    save(kept, 5)
    shutil.copytree(kept.directory / "000000005", tmp_path / "aside")
    save(kept, 6)
    (tmp_path / "aside").rename(kept.directory / "000000005")
    assert step_of(kept) == (6, 6)
    damage(kept.directory / "000000006" / "state.safetensors")
    assert step_of(kept) == (5, 5)
    save(kept, 6)
    assert there(kept) == ["000000006"]


def test_a_kill_while_saving_costs_only_the_steps_since(kept, monkeypatch):
    save(kept, 5)

    def killed(*_: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr("xmc.train.checkpoint.save_tensors", killed)
        with pytest.raises(KeyboardInterrupt):
            save(kept, 6)
    assert step_of(kept) == (5, 5)
    save(kept, 6)
    assert step_of(kept) == (6, 6)


def test_one_of_other_data_or_settings_is_not_loaded_but_dropped(kept):
    save(kept, 5)
    assert Checkpoints(kept.directory, "other settings").load() is None
    assert there(kept) == []
    assert step_of(kept) is None


def test_saving_drops_those_of_other_data_or_settings(kept):
    other = Checkpoints(kept.directory, "other settings")
    save(other, 900)
    save(kept, 5)
    assert there(kept) == ["000000005"]
    assert other.load() is None


def test_an_older_one_is_loaded_past_a_newer_one_of_other_data_or_settings(kept, tmp_path):
    """As after a kill that came before the older one was dropped."""
    save(kept, 5)
    shutil.copytree(kept.directory / "000000005", tmp_path / "aside")
    save(Checkpoints(kept.directory, "other settings"), 6)
    (tmp_path / "aside").rename(kept.directory / "000000005")
    assert step_of(kept) == (5, 5)
    assert there(kept) == ["000000005"]


def test_another_kind_of_artifact_is_not_loaded(kept):
    with ArtifactWriter(kept.directory / "000000005", "model"):
        pass
    assert kept.load() is None


def test_other_files_in_the_directory_are_left_alone(kept):
    kept.directory.mkdir(parents=True)
    (kept.directory / "notes.txt").write_text("mine")
    (kept.directory / "5 of them").mkdir()
    save(kept, 5)
    save(kept, 6)
    assert step_of(kept) == (6, 6)
    assert (kept.directory / "notes.txt").read_text() == "mine"
    assert (kept.directory / "5 of them").is_dir()
