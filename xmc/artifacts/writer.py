"""Writing an artifact: under another name, synced, renamed; whole or not at all."""

from __future__ import annotations

import contextlib
import os
import shutil
import stat
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Any

from xmc.artifacts import jsonfile
from xmc.artifacts import manifest as manifests
from xmc.artifacts.reader import Artifact, file_checksum, read_manifest, unlisted
from xmc.artifacts.space import FULL, error_code, place_fault, write_fault
from xmc.artifacts.staging import Staging
from xmc.errors import ArtifactError, InputError, ResourceError, XmcError, some


class ArtifactWriter:
    """Writes the artifact at ``path``; nothing is seen there before all of it is.

    Files are written below ``writer.path``, in directories if need be. Leaving the ``with`` block without an
    error computes checksums, writes the manifest, syncs, and renames; leaving it with one removes what was
    written. A full disk, a missing right and the like become a ``ResourceError``.

        with ArtifactWriter(out, "model", parents={"labels": labels_id}, settings={"seed": 1}) as writer:
            save_array(writer.path / "prototypes.npy", prototypes)

    Args:
        path: where the artifact will be; missing parent directories are made.
        kind: what it is, as ``open_artifact`` will ask for it.
        parents: what it is built from: role to artifact id or checksum.
        settings: the settings it is built with, as JSON.
        replace: whether an artifact of this kind at ``path`` may be replaced; nothing else ever is.
        built_by: the command that builds it, such as ``xmc train``, for the messages about a damaged one.

    Raises:
        InputError: ``path`` is taken, or cannot be an artifact.
        ResourceError: another process is writing it, or it cannot be written.
    """

    def __init__(
        self,
        path: Path,
        kind: str,
        parents: Mapping[str, str] | None = None,
        settings: Mapping[str, Any] | None = None,
        replace: bool = False,
        built_by: str = "",
    ) -> None:
        self.kind = kind
        self.id = ""
        self._parents, self._settings = dict(parents or {}), dict(settings or {})
        self._replace, self._built_by = replace, built_by
        self._kept: dict[str, tuple[Artifact, dict[str, Any]]] = {}
        self._staging = Staging(Path(path))
        self._held = contextlib.ExitStack()  # the lock, and the hidden directory
        # What no reader would accept is refused now, not after hours of work.
        manifests.parse(jsonfile.encode(self._compose({})), path)

    @property
    def path(self) -> Path:
        """The directory to write in."""
        return self._staging.new

    def keep(self, artifact: Artifact, name: str) -> None:
        """Take over an unchanged file of another artifact, or of the one that is being replaced.

        It is hard-linked when the block ends, or copied where that is impossible, so a small change of a
        large artifact costs little. Its checksum is the one that ``artifact`` states.
        """
        artifact.file(name)
        self._kept[name] = (artifact, dict(artifact.manifest["files"][name]))

    def __enter__(self) -> ArtifactWriter:
        try:
            self._staging.target.parent.mkdir(parents=True, exist_ok=True)
            with contextlib.ExitStack() as stack:
                stack.enter_context(self._staging.locked())
                self._staging.recover()
                self._check_target()
                stack.callback(self._staging.clear)
                self._staging.claim()
                self._held = stack.pop_all()
        except OSError as error:
            raise place_fault(self._staging.target, error) from error
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        with self._held:
            if error is None:
                self._publish()
            elif self._is_about_output(error):
                fault = self._explain(error)
                if fault:
                    raise fault from error

    def _publish(self) -> None:
        try:
            content = self._compose(self._measure() | self._take_kept())
            raw = jsonfile.encode(content)
            manifests.parse(raw, self._staging.target)
            (self.path / manifests.MANIFEST).write_bytes(raw)
            self._check_target()
            self._staging.publish()
        except OSError as error:
            raise self._explain(error) or place_fault(self._staging.target, error) from error
        self.id = content["checksum"]

    def _compose(self, files: Mapping[str, Mapping[str, Any]]) -> dict[str, Any]:
        return manifests.compose(self.kind, self._parents, self._settings, files, self._built_by)

    def _check_target(self) -> None:
        """Refuse to take the place of anything but an artifact of this kind that holds nothing else."""
        target = self._staging.target
        if not target.exists():
            return
        if not target.is_dir():
            raise InputError(f"{target}: is a file; name a directory")
        if not os.listdir(target):
            return
        if not self._replace:
            raise InputError(f"{target}: already exists; name another or move it away")
        try:
            old = read_manifest(target)
        except ArtifactError as error:
            raise InputError(f"{target}: is not replaced, move it away first ({error})") from None
        if old["kind"] != self.kind:
            raise InputError(f"{target}: holds a {old['kind']}, not a {self.kind}; name another")
        others = unlisted(target, old["files"])
        if others:
            raise InputError(f"{target}: holds files that xmc did not write: {some(others)}; move them away")

    def _measure(self) -> dict[str, dict[str, Any]]:
        """Size and checksum of every file that was written."""
        if os.path.lexists(self.path / manifests.MANIFEST):
            raise ArtifactError(f"{self.path}: {manifests.MANIFEST} is written by ArtifactWriter alone")
        files: dict[str, dict[str, Any]] = {}
        for name in unlisted(self.path, ()):
            path = self.path / name
            if not stat.S_ISREG(os.lstat(path).st_mode):
                raise ArtifactError(f"{path}: an artifact holds regular files only")
            files[name] = {"size": path.stat().st_size, "sha256": file_checksum(path)}
        return files

    def _take_kept(self) -> dict[str, dict[str, Any]]:
        for name, (artifact, _) in self._kept.items():
            source, path = artifact.file(name), self.path / name
            if os.path.lexists(path):
                raise ArtifactError(f"{path}: is both written and kept")
            path.parent.mkdir(parents=True, exist_ok=True)
            try:
                os.link(source, path)
            except OSError:  # another file system, or one without hard links
                shutil.copyfile(source, path)
        return {name: entry for name, (_, entry) in self._kept.items()}

    def _is_about_output(self, error: BaseException) -> bool:
        """Whether an error out of the ``with`` block says that the output cannot be written."""
        if isinstance(error, XmcError):
            return False
        name = getattr(error, "filename", None)
        if isinstance(name, (str, bytes)):
            return Path(os.path.abspath(os.fsdecode(name))).is_relative_to(self._staging.root)
        return error_code(error) in FULL

    def _explain(self, error: BaseException) -> ResourceError | None:
        """The user's sentence for a failure of the disk, after making room again."""
        written = sum(path.lstat().st_size for path in self.path.rglob("*") if path.is_file())
        self._staging.clear()
        return write_fault(self._staging.target, error, written)
