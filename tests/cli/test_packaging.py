"""What is installed is whole: the wheel works far from the repository, with every package and setting."""

import os
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not (ROOT / "setup.py").is_file(), reason="not a checkout"),
]


@pytest.fixture(scope="module")
def wheel(tmp_path_factory):
    source, out = tmp_path_factory.mktemp("source"), tmp_path_factory.mktemp("wheel")
    for name in ("xmc", "conf"):
        shutil.copytree(ROOT / name, source / name, ignore=shutil.ignore_patterns("__pycache__"))
    for name in ("setup.py", "setup.cfg", "pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, source / name)
    build = [sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", str(out), str(source)]
    done = subprocess.run(build, capture_output=True, text=True, timeout=240, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return next(out.glob("xmc-*.whl"))


def test_the_wheel_holds_every_module_and_every_settings_file(wheel):
    held = {n for n in zipfile.ZipFile(wheel).namelist() if ".dist-info/" not in n}
    modules = {p.relative_to(ROOT).as_posix() for p in (ROOT / "xmc").rglob("*.py")}
    conf = {
        f"xmc/{p.relative_to(ROOT).as_posix()}"
        for p in (ROOT / "conf").rglob("*.*")
        if p.suffix in (".py", ".yaml")
    }
    assert held == modules | conf


def test_the_wheel_carries_the_licence(wheel):
    assert any(name.endswith("/LICENSE") for name in zipfile.ZipFile(wheel).namelist())


@pytest.fixture(scope="module")
def elsewhere(wheel, tmp_path_factory):
    """A folder with a blank in its name, where the wheel lies unpacked, and the environment that finds it."""
    folder = tmp_path_factory.mktemp("un packed")
    zipfile.ZipFile(wheel).extractall(folder)
    return folder, {**os.environ, "PYTHONPATH": str(folder)}


def run(elsewhere, *arguments):
    folder, environment = elsewhere
    return subprocess.run(
        [sys.executable, *arguments],
        cwd=folder.parent,
        env=environment,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


def test_the_unpacked_wheel_answers_from_any_folder(elsewhere):
    done = run(elsewhere, "-m", "xmc.cli", "index", "--help")
    assert done.returncode == 0, done.stderr
    assert "encoder.dense=default" in done.stdout


def test_the_unpacked_wheel_composes_its_own_settings(elsewhere):
    code = (
        "import xmc, xmc.conf; from xmc.config import settings_of;"
        "print(xmc.__file__, xmc.conf.__file__, settings_of('index', ['preset=fast']).encoder.dense, sep='|')"
    )
    done = run(elsewhere, "-c", code)
    assert done.returncode == 0, done.stderr
    package, conf, dense = done.stdout.strip().split("|")
    assert package.startswith(str(elsewhere[0]))
    assert conf.startswith(str(elsewhere[0]))
    assert dense == "none"


def test_the_package_that_runs_the_tests_finds_its_settings():
    """Also where it is installed editable, with conf/ beside xmc/."""
    import xmc.conf

    assert (Path(xmc.conf.__path__[0]) / "config.yaml").is_file()
