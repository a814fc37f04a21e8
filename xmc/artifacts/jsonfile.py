"""JSON files of an artifact: one canonical form out, strict reading in."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, NoReturn

from xmc.errors import ArtifactError, ResourceError


def encode(value: Any) -> bytes:
    """The one canonical JSON form of ``value``: sorted keys, ASCII, indented by one, a newline at the end.

    Raises:
        TypeError, ValueError: ``value`` is not JSON (NaN and infinity are not).
    """
    text = json.dumps(value, sort_keys=True, indent=1, ensure_ascii=True, allow_nan=False)
    return text.encode("ascii") + b"\n"


def decode(raw: bytes, where: object) -> Any:
    """The value that ``raw`` spells, read strictly: UTF-8, no NaN, no key twice, no absurd depth or number.

    Raises:
        ArtifactError: anything else; ``where`` names the file.
    """
    try:
        return json.loads(
            raw.decode("utf-8"), parse_constant=_refuse_constant, object_pairs_hook=_without_repeats
        )
    except RecursionError:
        raise ArtifactError(f"{where}: JSON is nested too deeply") from None
    except ValueError as error:  # JSONDecodeError, UnicodeDecodeError and numbers of thousands of digits
        raise ArtifactError(f"{where}: not JSON ({error})") from None


def _refuse_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not a JSON number")


def _without_repeats(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        raise ValueError("a key stands twice in one object")
    return found


def save_json(path: Path, value: Any) -> None:
    """Write ``value`` in its canonical form, so that equal values give equal files."""
    Path(path).write_bytes(encode(value))


def load_json(path: Path) -> Any:
    """The value in a file of ``save_json``.

    Raises:
        ArtifactError: the file is missing or not strict JSON.
        ResourceError: it cannot be read.
    """
    try:
        raw = Path(path).read_bytes()
    except FileNotFoundError:
        raise ArtifactError(f"{path}: file is missing") from None
    except OSError as error:
        raise ResourceError(f"{path}: cannot be read ({error.strerror})") from error
    return decode(raw, path)
