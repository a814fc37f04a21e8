"""Settings from ``conf/*.yaml`` and from the command line, turned into the dataclasses of `xmc.settings`.

The YAML files are composed by hydra from group choices (``preset=fast``). A ``NAME=VALUE`` of the user never
meets hydra's grammar: it is split at its first ``=``, converted by the type of its field, and laid over the
composed values. Only `composed` imports hydra, so that help is quick.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import Field, dataclass, fields, is_dataclass
from functools import reduce
from operator import or_
from typing import Any, TypeVar, get_args, get_type_hints

from xmc.confdocs import PACKAGE, groups, keys_of
from xmc.errors import SettingError
from xmc.rules import WANTED as WANTED_THRESHOLD
from xmc.rules import Rule, threshold_of
from xmc.settings import COMMANDS

T = TypeVar("T")
WHOLES = tuple[int, ...]
THRESHOLD = float | Rule
WANTED = {
    bool: "true or false",
    int: "a whole number",
    float: "a number",
    str: "text",
    WHOLES: "whole numbers with commas between them",
    THRESHOLD: WANTED_THRESHOLD,
}
TRUTH = {"true": True, "false": False}


@dataclass(frozen=True)
class Leaf:
    """One setting: its full name, its type, and words that stand for a value (``none``, ``auto``)."""

    name: str
    type: Any
    words: Mapping[str, Any]

    def convert(self, value: Any) -> Any:
        """``value``, text from the command line or a scalar from YAML, in this setting's type."""
        if isinstance(value, str) and value in self.words:
            return self.words[value]
        try:
            return _as_type(self.type, value)
        except (ValueError, KeyError):
            wanted = " or ".join([WANTED[self.type], *list(self.words)[:1]])
            raise SettingError(f"{self.name}={value}: wanted {wanted}") from None


def _as_type(kind: Any, value: Any) -> Any:
    """``value`` as ``kind``, or a ValueError or KeyError. A bool is no number."""
    if kind == WHOLES:
        return tuple(int(part) for part in str(value).split(","))
    if kind == THRESHOLD:
        return threshold_of(value)
    if kind is bool and isinstance(value, str):
        return TRUTH[value.lower()]
    if kind in (int, float) and isinstance(value, str):
        return kind(value)
    if kind is float and type(value) is int:
        return float(value)
    if type(value) is not kind:
        raise ValueError
    return value


def leaves(settings: type, prefix: str = "") -> dict[str, Leaf]:
    """Every setting that the dataclass ``settings`` holds, by full name."""
    found: dict[str, Leaf] = {}
    hints = get_type_hints(settings)
    for f in fields(settings):
        kind = hints[f.name]
        if is_dataclass(kind):
            inner = leaves(kind, _inner(f, prefix))  # type: ignore[arg-type]
            only = f.metadata.get("only")
            found |= {k: v for k, v in inner.items() if only is None or k in only}
        else:
            plain = _without_none(kind)
            found[prefix + f.name] = Leaf(prefix + f.name, plain, f.metadata.get("words", {}))
    return found


def _without_none(kind: Any) -> Any:
    """``float`` for ``float | None``."""
    parts = get_args(kind)
    return reduce(or_, [p for p in parts if p is not type(None)]) if type(None) in parts else kind


def _inner(f: Field[Any], prefix: str) -> str:
    return prefix if f.metadata.get("flat") else f"{prefix}{f.name}."


def make(settings: type[T], values: Mapping[str, Any], prefix: str = "") -> T:
    """``settings`` filled from ``values`` by full name and validated; what is not there keeps its default."""
    hints = get_type_hints(settings)
    arguments: dict[str, Any] = {}
    for f in fields(settings):  # type: ignore[arg-type]
        if is_dataclass(hints[f.name]):
            arguments[f.name] = make(hints[f.name], values, _inner(f, prefix))
        elif prefix + f.name in values:
            arguments[f.name] = values[prefix + f.name]
    made = settings(**arguments)
    made.validate()  # type: ignore[attr-defined]
    return made


def settings_of(command: str, assignments: Sequence[str] = ()) -> Any:
    """The settings of ``command``, of the type in `COMMANDS`: the YAML files, then the user's ``NAME=VALUE``.

    Raises SettingError for a name that the command does not read, a name given twice, or a wrong value.
    """
    settings = COMMANDS[command]
    known = leaves(settings)
    choices = choosable(known)
    given = _split(assignments)
    for name in given:
        if name not in known and name not in choices:
            raise SettingError(unknown(name, [*known, *choices], command))
    chosen = {n: v for n, v in given.items() if n in choices}
    for name, value in chosen.items():
        if value not in choices[name]:
            raise SettingError(f"{name}={value}: wanted one of {', '.join(choices[name])}")
    values = {n: v for n, v in composed(chosen).items() if n in known}
    values |= {n: v for n, v in given.items() if n in known}
    return make(settings, {n: known[n].convert(v) for n, v in values.items()})


def _split(assignments: Iterable[str]) -> dict[str, str]:
    given: dict[str, str] = {}
    for text in assignments:
        name, sign, value = text.partition("=")
        if not sign:
            raise SettingError(f"{text!r}: wanted NAME=VALUE")
        if name in given:
            raise SettingError(f"{name} is given twice: {given[name]!r} and {value!r}")
        given[name] = value
    return given


def choosable(known: Mapping[str, Leaf]) -> dict[str, list[str]]:
    """The groups among whose files a user of the settings ``known`` may choose, each with its choices."""
    found: dict[str, list[str]] = {}
    for group, names in groups().items():
        keys = {k for name in names for k in keys_of(group, name)}
        if len(names) > 1 and keys & set(known):
            found[group] = names
    return found


def unknown(name: str, known: Sequence[str], command: str) -> str:
    """The message for a setting that ``command`` does not read, with the nearest one that it does."""
    near = difflib.get_close_matches(name, known, n=1) or [k for k in known if k.endswith("." + name)]
    readers = [c for c, s in COMMANDS.items() if name in leaves(s) or name in choosable(leaves(s))]
    if readers:
        return f"xmc {command} does not read the setting {name!r} (read by: xmc {', '.join(readers)})"
    offer = f"did you mean {near[0]}? " if near else ""
    return f"unknown setting {name!r}: {offer}`xmc {command} --help` lists every setting"


def composed(chosen: Mapping[str, str]) -> dict[str, Any]:
    """``conf/config.yaml`` with its groups, by full name; ``chosen``: group to file, where not default."""
    from hydra import compose, initialize_config_module
    from omegaconf import OmegaConf

    with initialize_config_module(PACKAGE, version_base="1.3"):
        config = compose("config", overrides=[f"{group}={name}" for group, name in chosen.items()])
    return _flattened(OmegaConf.to_container(config, resolve=True))


def _flattened(tree: Any, prefix: str = "") -> dict[str, Any]:
    flat: dict[str, Any] = {}
    for key, value in tree.items():
        flat |= _flattened(value, f"{prefix}{key}.") if isinstance(value, dict) else {prefix + key: value}
    return flat
