"""A model at a git revision: ``model.onnx@origin/main``.

A repository is untrusted input too: git runs programs from its settings, and accepts any folder that looks like a
repository. The repository is therefore located here, by its ``.git``, and git only reads objects.
"""

from __future__ import annotations

import contextlib
import mmap
import os
import re
import shlex
import tempfile
from collections.abc import Iterator
from pathlib import Path, PurePosixPath
from typing import IO

from ortune import files, launcher
from ortune.errors import ModelError, UsageError
from ortune.graph.model import wire

LFS_HEAD = b"version https://git-lfs.github.com/spec/"
_LIMIT_S = 600.0  # for a model of many gigabytes
_READING = ["--no-pager"]
for _setting in ("safe.bareRepository=explicit", "core.fsmonitor=false", f"core.hooksPath={os.devnull}"):
    _READING += ["-c", _setting]
# The user's own settings list trusted repositories; other variables could select another repository.
_PASSED = frozenset({"GIT_CONFIG_GLOBAL", "GIT_CONFIG_SYSTEM", "GIT_CONFIG_NOSYSTEM"})


def split(text: str) -> tuple[str, str] | None:
    """Split ``path@revision`` into (path, revision); return None for a plain path, such as an existing file's."""
    if files.exists(text) or "@" not in text:
        return None
    path, _, revision = text.rpartition("@")
    return (path, revision) if path and revision else None


def checkout(path: str, revision: str, folder: Path) -> Path:
    """Write the model at a revision, and its external data, into a new subfolder, and return the model's path.

    Git LFS pointers are resolved if the object is in the local LFS store.

    Raises:
        UsageError: If the path is not in a git repository, or there is no such revision or file.
        ModelError: If an LFS object is missing locally.
    """
    where = f"{path}@{revision}"
    file = (Path.cwd() / path).resolve()
    top = next((folder_above for folder_above in file.parents if (folder_above / ".git").exists()), None)
    if top is None:
        raise UsageError("not inside a git repository", where=str(file.parent))
    commit = _text(top, "rev-parse", "--verify", "--quiet", f"{revision}^{{commit}}", where=where)
    name = PurePosixPath(file.relative_to(top).as_posix())
    # A separate folder: two sides may have files of the same name, and a hard link must never be written to.
    folder.mkdir(parents=True, exist_ok=True)
    folder = Path(tempfile.mkdtemp(dir=folder))
    out = folder / f"{name.stem}@{commit[:10]}{name.suffix}"
    _write(top, commit, name, out, where)
    for other in sorted(_external_files(out)):
        _write(top, commit, name.parent / other, folder / other, where)
    return out


def _write(top: Path, commit: str, name: PurePosixPath, out: Path, where: str) -> None:
    out.parent.mkdir(parents=True, exist_ok=True)
    blob = f"{commit}:{name}"
    with out.open("xb") as f:
        done = _git(top, "cat-file", "blob", blob, where=where, output=f)
    if done.code != 0:
        out.unlink()
        # A partial clone has trees, but not necessarily the objects that they list.
        oid = _git(top, "rev-parse", "--verify", "--quiet", blob, where=where)
        if oid.code == 0:
            raise UsageError(
                f"{name} is in that revision, but its content is missing locally",
                where=where,
                do=f"fetch it with git cat-file blob {shlex.quote(blob)} > FILE, and pass that file",
            )
        raise UsageError(
            f"{name} is not in that revision", where=where, do="run git fetch, or use another revision"
        )
    with out.open("rb") as f:
        head = f.read(1024)
    if head.startswith(LFS_HEAD):
        out.unlink()
        # ONNX Runtime rejects symbolic links to weights in other folders.
        files.link(_lfs_object(top, head, where), out)


def _lfs_object(top: Path, pointer: bytes, where: str) -> Path:
    match = re.search(rb"^oid sha256:([0-9a-f]{64})$", pointer, re.MULTILINE)
    if not match:
        raise ModelError("is a damaged Git LFS pointer", where=where)
    oid = match.group(1).decode()
    common = _text(top, "rev-parse", "--git-common-dir", where=where)
    objects = (top / common / "lfs" / "objects").resolve()
    path = objects / oid[:2] / oid[2:4] / oid
    if path.resolve() != path or not files.is_file(path):  # a link could point to any file of the user
        revision = where.rpartition("@")[2].removeprefix("origin/")
        raise ModelError(
            "its Git LFS object is missing locally",
            where=where,
            do=f"git lfs fetch origin {revision} (CI: check out with lfs: true)",
        )
    return path


def _external_files(model: Path) -> set[str]:
    """Return the names of the external data files to which the model's graph refers."""
    if model.suffix == ".ort":
        return set()
    import onnx
    from google.protobuf.message import DecodeError, Message

    def tensors(message: Message) -> Iterator[onnx.TensorProto]:
        for _, value in message.ListFields():
            if isinstance(value, str | bytes | int | float):
                continue
            # Not isinstance(Iterable): protobuf's repeated fields have only __getitem__.
            for item in (value,) if isinstance(value, Message) else value:
                if isinstance(item, onnx.TensorProto):
                    yield item
                elif isinstance(item, Message):
                    yield from tensors(item)

    proto = onnx.ModelProto()
    # Unreadable files are rejected with a better message when the model is opened.
    with contextlib.suppress(ModelError, DecodeError), model.open("rb") as f:
        proto.ParseFromString(wire.skeleton(mmap.mmap(f.fileno(), 0, access=mmap.ACCESS_READ), str(model)))
    locations = {e.value for t in tensors(proto) for e in t.external_data if e.key == "location"}
    own = {model.name, wire.OWN_FILE}
    paths = {PurePosixPath(name) for name in locations - own}
    return {str(path) for path in paths if not path.is_absolute() and ".." not in path.parts}


def _text(top: Path, *words: str, where: str) -> str:
    """Run git and return its output; raise UsageError with the last line of its error output if it fails."""
    done = _git(top, *words, where=where)
    if done.code != 0:
        what = done.log.decode("utf-8", "replace").strip().splitlines()
        raise UsageError(
            what[-1] if what else "no such revision", where=where, do="run git fetch, or use another revision"
        )
    return done.output.decode().strip()


def _git(top: Path, *words: str, where: str, output: IO[bytes] | None = None) -> launcher.CommandResult:
    """Run git in the repository of a folder, without other programs, fetching, or other repositories."""
    environment = {k: v for k, v in os.environ.items() if not k.startswith("GIT_") or k in _PASSED}
    environment |= {
        # An invalid .git must not make git search parent folders.
        "GIT_CEILING_DIRECTORIES": str(top.parent),
        "GIT_NO_LAZY_FETCH": "1",  # since git 2.45; older versions may not use any protocol
        "GIT_ALLOW_PROTOCOL": "none",  # overrides the repository's settings
        "GIT_TERMINAL_PROMPT": "0",
    }
    program = launcher.program("git")
    if not program:
        raise UsageError("git is not installed", where=where)
    command = [program, "-C", str(top), *_READING, *words]
    return launcher.run(command, limit_s=_LIMIT_S, environment=environment, output=output)
