"""Parsing of one command's arguments: options and paths first, then settings as ``NAME=VALUE``."""

from __future__ import annotations

import argparse
import difflib
import os
import re
import shutil
import textwrap
from collections.abc import Sequence
from typing import Any, NoReturn

from xmc.confdocs import keys_of, summary_of
from xmc.config import choosable, leaves
from xmc.errors import SettingError
from xmc.settings import COMMANDS

ASSIGNMENT = re.compile(r"[A-Za-z_][\w.]*=", re.ASCII)
ASSIGNMENTS = "assignments"
COLUMN = 28


class CommandParser(argparse.ArgumentParser):
    """The arguments of ``xmc COMMAND``; whatever is wrong becomes a SettingError instead of an exit."""

    def __init__(self, command: str, summary: str, usage: str) -> None:
        super().__init__(
            prog=f"xmc {command}",
            usage=f"xmc {command} {usage} [NAME=VALUE ...]",
            description=summary[0].upper() + summary[1:] + ".",
            formatter_class=argparse.RawDescriptionHelpFormatter,
            allow_abbrev=False,
        )
        self.settings = COMMANDS[command]
        self._needed: list[argparse.Action] = []
        self.set_defaults(**{ASSIGNMENTS: []})

    def file(self, *names: str, required: bool = False, **keywords: Any) -> None:
        """An option that takes one file and may be given once."""
        self._needs(self.add_argument(*names, action=_Once, **keywords), required)

    def files(self, *names: str, required: bool = False, **keywords: Any) -> None:
        """An option that takes several files and may be given again."""
        made = self.add_argument(*names, action=_Paths, nargs="+", default=[], metavar="F", **keywords)
        self._needs(made, required)

    def _needs(self, option: argparse.Action, required: bool) -> None:
        # Not argparse's `required`: it would complain of a missing option before it names a mistyped one.
        if required:
            self._needed.append(option)

    def error(self, message: str) -> NoReturn:
        """Raise what argparse would print before it exits."""
        raise SettingError(f"{message}; see `{self.prog} --help`")

    def read(self, arguments: Sequence[str], paths: bool = False) -> argparse.Namespace:
        """The parsed arguments; ``.assignments``: the settings; ``.paths`` (if ``paths``): bare arguments."""
        args, rest = self.parse_known_args(arguments)
        bare = [a for a in rest if a == "-" or not a.startswith("-")]
        for option in rest:
            if option not in bare and option != "--":
                self.error(self._unknown_option(option))
        for needed in self._needed:
            if not getattr(args, needed.dest):
                self.error(f"{needed.option_strings[0]} {needed.metavar} is missing")
        is_setting = _is_setting if paths else _is_assignment
        getattr(args, ASSIGNMENTS).extend(a for a in bare if is_setting(a))
        args.paths = [a for a in bare if not is_setting(a)]
        if args.paths and not paths:
            self.error(f"unexpected argument {args.paths[0]!r}: wanted an option or NAME=VALUE")
        return args

    def _unknown_option(self, option: str) -> str:
        name, _, value = option.lstrip("-").partition("=")
        setting = name.replace("-", "_")
        if setting in leaves(self.settings):
            return f"{option}: a setting is written without dashes, {setting}={value or 'VALUE'}"
        options = [o for a in self._actions for o in a.option_strings]
        near = difflib.get_close_matches("--" + name, options, n=1)
        return f"unknown option {option}" + (f": did you mean {near[0]}?" if near else "")

    def format_help(self) -> str:
        """Argparse's help, then every setting that the command reads."""
        width = max(60, min(shutil.get_terminal_size().columns, 100))
        return super().format_help() + "\n" + described(self.settings, width)


def _is_assignment(text: str) -> bool:
    return ASSIGNMENT.match(text) is not None


def _is_setting(text: str) -> bool:
    """Among paths, ``a=b`` is a setting unless a file of that name exists."""
    return _is_assignment(text) and not os.path.lexists(text)


class _Once(argparse.Action):
    """Stores a value; a second one would silently hide the first."""

    def __call__(self, parser: Any, namespace: Any, values: Any, option_string: str | None = None) -> None:
        if getattr(namespace, self.dest) is not None:
            parser.error(f"{option_string} is given twice")
        setattr(namespace, self.dest, values)


class _Paths(argparse.Action):
    """Collects paths; settings behind the first one (``--docs a b top_k=5``) go where they belong."""

    def __call__(self, parser: Any, namespace: Any, values: Any, option_string: str | None = None) -> None:
        paths = [v for n, v in enumerate(values) if n == 0 or not _is_setting(v)]
        getattr(namespace, ASSIGNMENTS).extend(v for n, v in enumerate(values) if n and _is_setting(v))
        setattr(namespace, self.dest, [*getattr(namespace, self.dest), *paths])


def described(settings: type, width: int = 100) -> str:
    """Every setting of ``settings`` with its default and the comment in ``conf/``, choices of files first."""
    known = leaves(settings)
    comments = {n: d for group in _sections(known) for n, d in keys_of(*group).items()}
    lines = ["settings, as NAME=VALUE (VALUE is taken as it stands; shown with their defaults):"]
    for group, names in choosable(known).items():
        each = "; ".join(f"{name}: {summary_of(group, name).rstrip('.')}" for name in names)
        lines += _entry(f"{group}=default", f"Several at once. {each}.", width)
    for name in known:
        lines += _entry(f"{name}={comments[name].value}", comments[name].comment, width)
    return "\n".join(lines) + "\n"


def _sections(known: Any) -> list[tuple[str, str]]:
    return [("", "config"), *sorted({(n.split(".")[0], "default") for n in known if "." in n})]


def _entry(head: str, text: str, width: int) -> list[str]:
    indent = " " * COLUMN
    lines = textwrap.wrap(text, width, initial_indent=indent, subsequent_indent=indent)
    if len(head) + 4 > COLUMN:
        return ["  " + head, *lines]
    return [f"  {head}".ljust(COLUMN) + lines[0].lstrip(), *lines[1:]]
