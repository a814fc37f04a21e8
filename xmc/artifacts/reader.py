"""Opening an artifact: nothing is used that is not what its manifest says, and nothing is changed."""

from __future__ import annotations

import hashlib
import os
import stat
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from xmc.artifacts import manifest as manifests
from xmc.artifacts import verified
from xmc.artifacts.staging import settle
from xmc.errors import ArtifactError, ResourceError

_CHUNK = 2**20
_SHOW_PROGRESS_FROM = 2**30
_TRIES = 3


@dataclass(frozen=True)
class Artifact:
    """An opened artifact; ``id`` is what its descendants name as their parent."""

    path: Path
    manifest: dict[str, Any]
    _identity: tuple[int, int] | None

    @property
    def id(self) -> str:
        """SHA-256 of the manifest's content, and so of everything in the artifact."""
        return str(self.manifest["checksum"])

    @property
    def kind(self) -> str:
        """What it is: ``model`` and so on."""
        return str(self.manifest["kind"])

    @property
    def settings(self) -> dict[str, Any]:
        """The settings it was built with."""
        return dict(self.manifest["settings"])

    @property
    def parents(self) -> dict[str, str]:
        """What it was built from: role to artifact id or checksum."""
        return dict(self.manifest["parents"])

    @property
    def names(self) -> list[str]:
        """The names of its files, sorted."""
        return sorted(self.manifest["files"])

    def file(self, name: str) -> Path:
        """The path of one of its files, which has the size that the manifest states.

        Raises:
            ArtifactError: the manifest has no such file, or it is damaged, or the artifact was replaced.
        """
        if name not in self.manifest["files"]:
            raise ArtifactError(f"{self.path}: has no file {name!r}; {self._hint()}")
        if _identity(self.path) != self._identity:
            raise ArtifactError(f"{self.path}: was replaced while it was being read; run the command again")
        fault = _size_fault(self.path, name, self.manifest["files"][name]["size"])
        if fault:
            raise ArtifactError(f"{self.path}: {name}: {fault}; {self._hint()}")
        return self.path / name

    def directory(self, name: str) -> Path:
        """The path of a directory in it that holds exactly what the manifest lists there.

        For libraries that load whatever they find in a directory.

        Raises:
            ArtifactError: there is no such directory, it is damaged, or it holds a file that is not listed.
        """
        listed = [other for other in self.names if other.startswith(f"{name}/")]
        if not listed:
            raise ArtifactError(f"{self.path}: has no directory {name!r}; {self._hint()}")
        for other in listed:
            self.file(other)
        extra = [other for other in unlisted(self.path, self.names) if other.startswith(f"{name}/")]
        if extra:
            raise ArtifactError(f"{self.path}: {extra[0]!a} is not part of the artifact; move it away")
        return self.path / name

    def _hint(self) -> str:
        return manifests.rebuild_hint(self.manifest["built_by"])


def open_artifact(path: Path, kind: str, verify: bool | None = None) -> Artifact:
    """The artifact at ``path``, checked.

    Sizes are checked always. Content is checked with ``verify=True``, never with ``verify=False``, and else
    the first time: a content that was found right is remembered in the user's cache directory until a file
    changes its size, time or inode.

    Raises:
        ArtifactError: it is missing, damaged, of another kind or of a newer schema; nothing is changed.
        ResourceError: it cannot be read.
    """
    path = Path(path)
    for _ in range(_TRIES):
        settle(path)
        before = _identity(path)
        try:
            return _open(path, kind, verify)
        except ArtifactError:
            # A writer may have swapped the directory while we read: then this was no damage.
            if _identity(path) == before:
                raise
    raise ArtifactError(f"{path}: is being replaced again and again; try later")


def read_manifest(path: Path, kind: str = "") -> dict[str, Any]:
    """The checked manifest of the artifact at ``path``.

    Raises:
        ArtifactError: there is none, or it is damaged; says how to rebuild it, or else the ``kind`` wanted.
        ResourceError: it cannot be read.
    """
    raw = b""
    try:
        raw = manifests.read_bytes(path)
        return manifests.parse(raw, path / manifests.MANIFEST)
    except ArtifactError as error:
        raise ArtifactError(f"{error}; {manifests.rebuild_hint(manifests.command(raw), kind)}") from None


def find_faults(path: Path, verify: bool = False) -> list[str]:
    """One line for each fault of the artifact at ``path``, without its path; none for a good one.

    Args:
        path: the artifact.
        verify: read and check the content of every file, not only its size.
    """
    settle(Path(path))
    try:
        content = manifests.parse(manifests.read_bytes(Path(path)), manifests.MANIFEST)
    except ArtifactError as error:
        return [str(error)]
    faults = _size_faults(Path(path), content["files"])
    whole = {name: entry for name, entry in content["files"].items() if name not in faults}
    return _lines(faults | (_content_faults(Path(path), whole) if verify else {}))


def is_artifact(path: Path) -> bool:
    """Whether ``path`` is a directory with an xmc manifest, be it damaged."""
    settle(Path(path))
    return manifests.is_marked(Path(path))


def unlisted(path: Path, names: Iterable[str]) -> list[str]:
    """The files below ``path`` that are neither in ``names`` nor the manifest, sorted."""
    found = []
    for directory, folders, files in os.walk(path):
        links = [folder for folder in folders if os.path.islink(os.path.join(directory, folder))]
        found += [Path(directory, name).relative_to(path).as_posix() for name in files + links]
    return sorted(set(found) - set(names) - {manifests.MANIFEST})


def file_checksum(path: Path, count: Callable[[int], object] = lambda n: None) -> str:
    """SHA-256 of a file; ``count`` is told of every piece that was read, in bytes."""
    digest, piece = hashlib.sha256(), memoryview(bytearray(_CHUNK))
    with open(path, "rb", buffering=0) as file:
        while n := file.readinto(piece):
            digest.update(piece[:n])
            count(n)
    return digest.hexdigest()


def _open(path: Path, kind: str, verify: bool | None) -> Artifact:
    identity = _identity(path)
    content = read_manifest(path, kind)
    hint = manifests.rebuild_hint(content["built_by"])
    if content["kind"] != kind:
        raise ArtifactError(f"{path}: holds a {content['kind']}, not a {kind}; name another, or {hint}")
    _refuse(path, _size_faults(path, content["files"]), hint)
    seen = verified.fingerprint(path, content)
    if verify or (verify is None and not verified.is_known(path, seen)):
        _refuse(path, _content_faults(path, content["files"]), hint)
        verified.remember(path, seen)
    return Artifact(path, content, identity)


def _refuse(path: Path, faults: dict[str, str], hint: str) -> None:
    if faults:
        more = f" (and {len(faults) - 1} more)" if len(faults) > 1 else ""
        raise ArtifactError(f"{path}: {_lines(faults)[0]}{more}; {hint}")


def _lines(faults: dict[str, str]) -> list[str]:
    return [f"{name}: {fault}" for name, fault in faults.items()]


def _size_faults(path: Path, files: dict[str, Any]) -> dict[str, str]:
    """The faults, by name, of the files that are missing or not of the stated size."""
    faults = {name: _size_fault(path, name, entry["size"]) for name, entry in files.items()}
    return {name: fault for name, fault in faults.items() if fault}


def _size_fault(path: Path, name: str, size: int) -> str:
    """Why the file ``name`` is not a plain file of ``size`` bytes within ``path``, or ""."""
    try:
        for folder in list((path / name).parents)[: name.count("/")]:
            if not stat.S_ISDIR(os.lstat(folder).st_mode):
                return "does not lie in a directory of the artifact"
        found = os.lstat(path / name)
    except (FileNotFoundError, NotADirectoryError):
        return "file is missing"
    except OSError as error:
        raise ResourceError(f"{path / name}: cannot be read ({error.strerror})") from error
    if not stat.S_ISREG(found.st_mode):
        return "not a regular file of the artifact"
    return "" if found.st_size == size else f"expected {size} bytes, found {found.st_size}"


def _content_faults(path: Path, files: dict[str, Any]) -> dict[str, str]:
    """The faults, by name, of the files without the stated checksum; shows progress on a large artifact."""
    from tqdm import tqdm

    total = sum(entry["size"] for entry in files.values())
    faults = {}
    with tqdm(
        total=total,
        desc=f"checking {path.name}",
        unit="B",
        unit_scale=True,
        leave=False,
        disable=None if total >= _SHOW_PROGRESS_FROM else True,
    ) as bar:
        for name, entry in files.items():
            try:
                found = file_checksum(path / name, bar.update)
            except FileNotFoundError:
                faults[name] = "file is missing"
                continue
            except OSError as error:
                raise ResourceError(f"{path / name}: cannot be read ({error.strerror})") from error
            if found != entry["sha256"]:
                faults[name] = f"expected sha256 {entry['sha256'][:16]}…, found {found[:16]}…"
    return faults


def _identity(path: Path) -> tuple[int, int] | None:
    """Which directory lies at ``path`` now."""
    try:
        found = os.stat(path)
    except OSError:
        return None
    return found.st_dev, found.st_ino
