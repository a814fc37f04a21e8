"""An artifact in a place of its own."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.artifacts.conftest import cache  # noqa: F401
from tests.cases.artifacts.made import write


@pytest.fixture
def model(tmp_path) -> Path:
    return write(tmp_path / "model", b"old")
