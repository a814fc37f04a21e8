"""RunManifest: what a tagging run was started with, as it stands in ``run.json`` and in ``OUT.run.json``."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from xmc.errors import ArtifactError
from xmc.tag.inputs import Input

SCHEMA = 1


@dataclass(frozen=True)
class RunManifest:
    """Flat settings by name and the document files; ``OUT.run.json`` adds counts and the output's checksum.

    A run goes on, and a finished output is known again, only where `changes` finds none.
    """

    settings: Mapping[str, Any]
    inputs: Sequence[Input]
    more: Mapping[str, Any]

    @classmethod
    def of(cls, settings: Mapping[str, Any], inputs: Sequence[Input]) -> RunManifest:
        """``settings`` may be nested; they get dotted names."""
        return cls(flat(settings), inputs, {})

    def to_json(self, **more: Any) -> bytes:
        """Indented JSON, with further entries at the end."""
        inputs = [asdict(i) for i in self.inputs]
        entries = {"schema": SCHEMA, "settings": dict(self.settings), "inputs": inputs, **more}
        return (json.dumps(entries, indent=1) + "\n").encode()

    @property
    def has_pipe(self) -> bool:
        """Whether documents come from a pipe, so that nothing can tell if they are the same again."""
        return any(i.is_pipe for i in self.inputs)

    def changes(self, before: RunManifest) -> list[str]:
        """What to tell about each thing in which ``before`` differs: "threshold was none and is 0.5"."""
        names = dict.fromkeys([*before.settings, *self.settings])
        pairs = [(n, before.settings.get(n), self.settings.get(n)) for n in names]
        told = [f"{n} was {_shown(old)} and is {_shown(new)}" for n, old, new in pairs if old != new]
        return told + _input_changes(before.inputs, self.inputs)


def read_manifest(path: Path) -> RunManifest | None:
    """The manifest in ``path``, or None where there is none. Raises: ArtifactError if it is not one."""
    try:
        found = json.loads(path.read_bytes())
        if found["schema"] != SCHEMA:
            raise ValueError(f"schema {found['schema']}")
        inputs = [Input(**i) for i in found["inputs"]]
        return RunManifest(
            dict(found["settings"]), inputs, {k: found[k] for k in ("counts", "output") if k in found}
        )
    except FileNotFoundError:
        return None
    except (ValueError, TypeError, KeyError, OSError) as error:
        wanted = f"wanted the manifest of a tagging run, schema {SCHEMA}"
        raise ArtifactError(f"{path}: {error}; {wanted}; delete it to start again") from None


def _input_changes(before: Sequence[Input], now: Sequence[Input]) -> list[str]:
    if len(before) != len(now):
        return [f"there were {len(before)} document files and are {len(now)}"]
    return [_input_change(b, n) for b, n in zip(before, now, strict=True) if b.sha256 != n.sha256]


def _input_change(before: Input, now: Input) -> str:
    if before.path != now.path:
        return f"documents were read from {before.path} and now from {now.path}, which holds others"
    return f"the content of {now.path} changed ({before.size:,} bytes then, {now.size:,} now)"


def flat(settings: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    """Nested settings under dotted names, each value as JSON would give it back."""
    found: dict[str, Any] = {}
    for name, value in settings.items():
        if isinstance(value, Mapping):
            found |= flat(value, f"{prefix}{name}.")
        else:
            found[prefix + name] = json.loads(json.dumps(value, default=str))
    return found


def _shown(value: Any) -> str:
    return "none" if value is None else str(value)
