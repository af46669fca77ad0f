"""A model as it was at a git revision: ``model.onnx@origin/main``."""

from __future__ import annotations

import contextlib
import mmap
import os
import re
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path, PurePosixPath

from ortune import files, launcher
from ortune.errors import ModelError, UsageError
from ortune.model import wire

LFS_HEAD = b"version https://git-lfs.github.com/spec/"
_LIMIT_S = 600.0  # a partial clone fetches what it lacks


def split(text: str) -> tuple[str, str] | None:
    """``path@revision`` as its parts, or None when it is a plain path (an existing file always is)."""
    if files.exists(text) or "@" not in text:
        return None
    path, _, revision = text.rpartition("@")
    return (path, revision) if path and revision else None


def checkout(path: str, revision: str, folder: Path) -> Path:
    """Writes the model of that revision, and external data beside it, into a folder and returns its path.

    Git LFS pointers are resolved when the object is in the local LFS store.

    Raises:
        UsageError: Not in a git repository, or no such revision or file.
        ModelError: An LFS object that is not here.
    """
    target = Path(path)
    where = f"{path}@{revision}"
    parent = target.parent if target.parent.is_dir() else Path()
    top = Path(_git(parent, "rev-parse", "--show-toplevel", where=where).decode().strip())
    commit = (
        _git(parent, "rev-parse", "--verify", "--quiet", f"{revision}^{{commit}}", where=where)
        .decode()
        .strip()
    )
    absolute = (Path.cwd() / target).resolve()
    try:
        inside = absolute.relative_to(top.resolve())
    except ValueError:
        raise UsageError("lies outside the git repository", where=path) from None
    name = PurePosixPath(inside)
    # A folder of its own: two sides may hold files of the same names, and a hard link must never be written to.
    folder.mkdir(parents=True, exist_ok=True)
    folder = Path(tempfile.mkdtemp(dir=folder))
    out = folder / f"{name.stem}@{commit[:10]}{name.suffix}"
    _write(top, commit, name, out, where)
    for other in sorted(_external_files(out)):
        _write(top, commit, name.parent / other, folder / other, where)
    return out


def _write(top: Path, commit: str, name: PurePosixPath, out: Path, where: str) -> None:
    out.parent.mkdir(parents=True, exist_ok=True)
    with out.open("xb") as f:
        command = ["git", "-C", str(top), "cat-file", "blob", f"{commit}:{name}"]
        done = launcher.run(command, limit_s=_LIMIT_S, output=f)
    if done.code != 0:
        raise UsageError(
            f"{name} is not in that revision", where=where, do="git fetch, or name another revision"
        )
    with out.open("rb") as f:
        head = f.read(1024)
    if head.startswith(LFS_HEAD):
        out.unlink()
        _link(_lfs_object(top, head, where), out)


def _link(stored: Path, out: Path) -> None:
    """A second name for the file. A symbolic link would not do: ONNX Runtime refuses weights that lie elsewhere."""
    try:
        os.link(stored, out)
    except OSError:  # another file system
        shutil.copyfile(stored, out)


def _lfs_object(top: Path, pointer: bytes, where: str) -> Path:
    found = re.search(rb"^oid sha256:([0-9a-f]{64})$", pointer, re.MULTILINE)
    if not found:
        raise ModelError("is a damaged Git LFS pointer", where=where)
    oid = found.group(1).decode()
    common = Path(_git(top, "rev-parse", "--git-common-dir", where=where).decode().strip())
    path = (top / common / "lfs" / "objects" / oid[:2] / oid[2:4] / oid).resolve()
    if not path.is_file():
        revision = where.rpartition("@")[2].removeprefix("origin/")
        raise ModelError(
            "its Git LFS object is not here",
            where=where,
            do=f"git lfs fetch origin {revision} (CI: check out with lfs: true)",
        )
    return path


def _external_files(model: Path) -> set[str]:
    """Names of the external data files, read off the graph alone."""
    if model.suffix == ".ort":
        return set()
    import onnx
    from google.protobuf.message import DecodeError, Message

    def tensors(message: Message) -> Iterator[onnx.TensorProto]:
        for _, value in message.ListFields():
            if isinstance(value, str | bytes | int | float):
                continue
            # Repeated fields cannot be told by __iter__: protobuf's containers have only __getitem__.
            for item in (value,) if isinstance(value, Message) else value:
                if isinstance(item, onnx.TensorProto):
                    yield item
                elif isinstance(item, Message):
                    yield from tensors(item)

    proto = onnx.ModelProto()
    # What cannot be read here is refused with a better message when the model is opened.
    with contextlib.suppress(ModelError, DecodeError), model.open("rb") as f:
        proto.ParseFromString(wire.skeleton(mmap.mmap(f.fileno(), 0, access=mmap.ACCESS_READ), str(model)))
    found = {e.value for t in tensors(proto) for e in t.external_data if e.key == "location"}
    own = {model.name, wire.OWN_FILE}
    paths = {PurePosixPath(name) for name in found - own}
    return {str(path) for path in paths if not path.is_absolute() and ".." not in path.parts}


def _git(folder: Path, *words: str, where: str) -> bytes:
    try:
        done = launcher.run(["git", "-C", str(folder or "."), *words], limit_s=_LIMIT_S)
    except FileNotFoundError:
        raise UsageError("git is not installed", where=where) from None
    if done.code != 0:
        what = done.log.decode("utf-8", "replace").strip().splitlines()
        raise UsageError(
            what[-1] if what else "no such revision", where=where, do="git fetch, or name another revision"
        )
    return done.output
