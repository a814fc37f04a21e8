"""A change costs what changes: other files are linked."""

from __future__ import annotations

import numpy as np
import pytest

from tests.edit.made import LABELS, label_set, made
from xmc.artifacts import find_faults, save_array
from xmc.data.labels import LabelSet
from xmc.edit.change import change_model
from xmc.edit.labels import add_labels, restore_labels, retire_labels
from xmc.errors import ArtifactError
from xmc.model import Model
from xmc.settings import RunSettings


def changed(path, edit, given):
    return change_model(path, lambda model: edit(model, given)[0], RunSettings())


@pytest.fixture
def path(tmp_path):
    return made(tmp_path)


def test_retiring_writes_no_names(path):
    inode = (path / "labels.arrow").stat().st_ino
    changed(path, retire_labels, np.array([1, 4]))
    assert (path / "labels.arrow").stat().st_ino == inode
    assert np.flatnonzero(Model.load(path).labels.retired).tolist() == [1, 4]
    changed(path, restore_labels, np.array([4]))
    changed(path, add_labels, label_set())
    model = Model.load(path)
    assert np.flatnonzero(model.labels.retired).tolist() == [1]
    assert model.labels.ids.to_pylist()[: len(LABELS)] == [i for i, _ in LABELS]
    assert find_faults(path, verify=True) == []


def test_a_list_of_retired_labels_that_does_not_fit_is_refused(path, monkeypatch):
    monkeypatch.setattr(Model, "_save_labels", short)
    changed(path, retire_labels, np.array([1]))
    with pytest.raises(ArtifactError, match=r"retired\.npy: does not say of each label"):
        Model.load(path)


def short(model: Model, directory, before: LabelSet) -> list[str]:
    save_array(directory / "retired.npy", model.labels.retired[:-1])
    return ["labels.arrow"]
