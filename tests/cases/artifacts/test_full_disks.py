"""Full disks and read-only folders."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from pathlib import Path

import pytest

from tests.cases.artifacts.made import SOURCE, fill_with, run, snapshot, write
from xmc.artifacts import (
    ArtifactWriter,
    open_artifact,
)
from xmc.errors import ResourceError

# Disk full, read-only output


@pytest.fixture
def small_disk(tmp_path):
    """A file system of 1 MB."""
    place = tmp_path / "disk"
    place.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", str(place)]
    if os.geteuid() != 0 or subprocess.run(command, capture_output=True, check=False).returncode != 0:
        pytest.skip("a small file system can only be mounted by root")
    yield place
    subprocess.run(["umount", "-l", str(place)], check=True)


HOWS = ["save_array", "save_csr", "save_tensors", "numpy", "arrow", "faiss"]


@pytest.mark.parametrize("how", HOWS)
def test_disk_full(small_disk, how):
    model = write(small_disk / "model", b"old")
    before = snapshot(model)
    writer = ArtifactWriter(model, "model", replace=True)
    with pytest.raises(ResourceError, match=r"needs more than .*, \d.* [kM]B free") as error, writer:
        fill_with(how, writer.path)
    assert error.value.exit_code == 3
    assert snapshot(model) == before
    assert open_artifact(model, "model", verify=True)
    assert sorted(os.listdir(small_disk)) == [".model.xmc-lock", "model"]


def test_disk_full_at_the_manifest_or_before_the_start(small_disk):
    (small_disk / "ballast").write_bytes(bytes(2**20))
    for path in (small_disk / "a", small_disk / "b" / "c"):
        with pytest.raises(ResourceError, match=r"free|cannot be written"):
            write(path, b"x")
        assert not path.exists()


def test_a_disk_that_became_read_only(small_disk):
    model = write(small_disk / "model", b"old")
    subprocess.run(["mount", "-o", "remount,ro", str(small_disk)], check=True)
    with pytest.raises(ResourceError, match="Read-only") as error:
        write(model, b"new", replace=True)
    assert error.value.exit_code == 3
    assert open_artifact(model, "model", verify=True)


LIMITED = """
import os, resource, sys
sys.path[:0] = sys.argv[2:]
from pathlib import Path
from tests.cases.artifacts.made import fill_with
from xmc.artifacts import ArtifactWriter
from xmc.errors import ResourceError
resource.setrlimit(resource.RLIMIT_FSIZE, (2**20, 2**20))
model = Path(sys.argv[1])
for how in ["save_array", "save_csr", "numpy", "arrow"]:
    try:
        with ArtifactWriter(model, "model", replace=True) as writer:
            fill_with(how, writer.path)
    except ResourceError as error:
        print(error.exit_code, error)
    print(*sorted(os.listdir(model.parent)))
"""


def test_a_file_size_limit_is_a_full_disk(model):
    done = run(LIMITED, model, SOURCE)
    lines = done.stdout.splitlines()
    assert len(lines) == 8, done.stderr
    assert all(line.startswith("3 ") and ": needs more than " in line for line in lines[::2])
    assert all(line.split() == [".model.xmc-lock", "model"] for line in lines[1::2])
    assert open_artifact(model, "model", verify=True)


READ_ONLY = """
import os, sys
sys.path[:0] = sys.argv[3:]
from pathlib import Path
from tests.cases.artifacts.made import write
from xmc.artifacts import open_artifact
from xmc.errors import ResourceError
os.environ["XDG_CACHE_HOME"] = sys.argv[1]
write(Path(sys.argv[2]), b"")  # what Python imports late may not be there for the other user
open_artifact(Path(sys.argv[2]), "model")
if os.geteuid() == 0:  # whom no missing right stops
    os.setuid(65534)
for name, replace in (("model", True), ("other", False)):
    try:
        write(Path(sys.argv[1]) / name, b"new", replace=replace)
    except ResourceError as error:
        print(error.exit_code, error)
print(open_artifact(Path(sys.argv[1]) / "model", "model").kind)
"""


def test_a_folder_without_write_right(tmp_path):
    folder = Path(tempfile.mkdtemp())
    try:
        before = snapshot(write(folder / "model", b"old"))
        os.chmod(folder / "model", 0o755)
        os.chmod(folder, 0o555)
        done = run(READ_ONLY, folder, tmp_path / "warm", SOURCE)
        lines = done.stdout.splitlines()
        assert len(lines) == 3, done.stderr
        assert all(line.startswith("3 ") and "Permission denied" in line for line in lines[:2])
        assert lines[2] == "model"
        assert snapshot(folder / "model") == before
    finally:
        os.chmod(folder, 0o755)
        shutil.rmtree(folder)


def test_an_error_about_another_file_is_not_blamed_on_the_output(tmp_path):
    def read_elsewhere() -> None:
        with ArtifactWriter(tmp_path / "m", "model"):
            (tmp_path / "input.txt").read_bytes()

    with pytest.raises(FileNotFoundError):
        read_elsewhere()
    assert os.listdir(tmp_path) == [".m.xmc-lock"]
