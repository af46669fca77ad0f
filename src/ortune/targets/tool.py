"""Tasks of the tool process: each runs in a fresh process of the measured interpreter, within limits."""

from __future__ import annotations

import errno
import functools
import hashlib
import json
import os
import shutil
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

import msgspec

from ortune import platform, temporary
from ortune.catalogue.providers import CPU
from ortune.errors import OrtuneError
from ortune.graph.model.open import OpenModel, open_model
from ortune.records import (
    Applied,
    FailureReason,
    FeedRef,
    Fence,
    Plan,
    Runtime,
    ToolDone,
    ToolRequest,
    TrialError,
)
from ortune.targets.fence import fence_of
from ortune.targets.machine import short_of_memory
from ortune.targets.requests import CannotApply, applied
from ortune.targets.task import Limits
from ortune.targets.worker import Worker

_DO: Mapping[FailureReason, str] = {
    "no-runtime": "Check --runtime: it must have onnxruntime installed.",
    "disk-full": "Free space there, or set TMPDIR to a folder with more.",
    "out-of-memory": "Free memory, or omit the rewrite.",
    "input-error": "Pass inputs that the model accepts (--inputs, --shape, --dim), or omit the rewrite.",
    "run-error": "Pass inputs that the model accepts (--inputs, --shape, --dim), or omit the rewrite.",
}
_LOOKING = ("levels", "graphs", "peaks")
"""Tasks that do not belong to a rewrite."""
_DO_LOOKING: Mapping[FailureReason, str] = {
    "out-of-memory": "Free memory, and try again.",
    "timeout": "Try again when the machine is idle.",
}

_UNCONFINED = ("compile", "metric", "peaks")
"""Tasks with a process that is never confined: ``compile`` starts a provider's compilers and accesses its device,
``metric`` runs the user's function, which may read any file, and ``peaks`` reads no model. Tasks are also not confined
for providers other than the CPU's, with drivers in arbitrary files and devices, for custom operators, which the user
trusts as a program, and for remote interpreters. On systems without a fence, tasks run unconfined: trials open the same
model without a fence, so refusing would protect nothing."""
_MADE = "made"
"""Name of the folder for results within the folder of a task's process."""
_ENDINGS = ("", ".data", ".config")
"""Suffixes of a result's files: none for the result itself, those of its external data and of its list of operators."""

_COPIES: Mapping[str, tuple[float, float]] = {
    "quantize-prepare": (6.0, 4.5), "quantize-dynamic": (5.0, 4.5), "quantize-static": (6.0, 4.5),
    "quantize-weights": (2.2, 2.0), "smooth": (4.0, 4.0), "float16": (3.0, 3.0),
}  # fmt: skip
"""Peak memory of a task as a multiple of the model's size: for models below 1 GiB, whose weights are copied with the
model, and for larger models, whose weights are in files. The peak of other tasks is unknown.
``benchmarks/quantize_memory.py`` measures blocks of large matrix products; the results are in ``docs/precision.md``.
For a transformer above 1 GiB with mostly embeddings, 4.33 was measured for dynamic int8 with its preparation, and 1.82
for 4-bit weights. The value for float16 is an estimate."""
_IN_FILES_BYTES = 1 << 30
"""Model size from which on quantizers keep weights in files."""


def peak_bytes(task: str, model_bytes: int) -> int:
    """Return the expected peak memory of a task on a model of a given size, in bytes; 0 if unknown."""
    below, above = _COPIES.get(task, (0.0, 0.0))
    return int((above if model_bytes >= _IN_FILES_BYTES else below) * model_bytes)


class ToolFailed(OrtuneError):
    """The tool process failed; the reason is one of those of trials."""

    exit_code = 2
    default_code = "tool"

    def __init__(self, what: str, *, task: str, where: str, reason: FailureReason) -> None:
        do = _DO.get(reason, "Omit the rewrite for this model.")
        if task in _LOOKING and "rewrite" in do:
            do = _DO_LOOKING.get(
                reason, "Load the model alone with the same onnxruntime to see whether it fails there too."
            )
        super().__init__(what, where=where, do=do, code=f"tool-{reason}")
        self.reason: FailureReason = reason


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolProcess:
    """Runs tasks, each in a fresh process of the measured runtime.

    Attributes:
        runtime: The interpreter and its onnxruntime.
        folder: Scratch folder of this invocation.
        plan: Settings and providers of the session that a task creates.
        variables: Environment variables to add.
        custom_ops: Shared libraries with custom operators.
        feeds: Inputs for a task that runs the model.
        limits: Time and memory limits; ``run_s`` is not used, since a task ends when the model is loaded.
    """

    runtime: Runtime
    folder: Path
    plan: Plan = Plan()  # noqa: RUF009  (frozen)
    variables: tuple[Applied, ...] = ()
    custom_ops: tuple[str, ...] = ()
    feeds: tuple[FeedRef, ...] = ()
    limits: Limits = Limits()  # noqa: RUF009  (frozen)

    @property
    def identity(self) -> str:
        """Key that changes if the same task would give a different result."""
        parts = (
            self.runtime.package,
            self.runtime.ort_version,
            tuple(sorted(self.runtime.packages.items())),
            (self.runtime.host or platform.host()).fingerprint,
            msgspec.json.encode((self.plan, self.variables, self.custom_ops)),
            *(_content(feed) for feed in self.feeds),
        )
        return hashlib.sha256(repr(parts).encode()).hexdigest()[:16]

    def __call__(self, task: str, source: Path, target: Path, params: Mapping[str, str]) -> str:
        """Run one task; see ``rewrites.Tool``.

        Raises:
            ToolFailed: The task failed, with the message of the process or ONNX Runtime; or this machine lacks the
                memory for the task.
        """
        place = f"{task} {source.name}"
        opened = functools.cache(open_model)  # used for its size and its files
        if task in _COPIES and self.runtime.host is None:
            needed = peak_bytes(task, opened(source).size_bytes)
            lacking = short_of_memory(needed, self.limits.memory_share)
            if lacking:
                raise ToolFailed(lacking, task=task, where=place, reason="out-of-memory")
        try:
            settings = applied(self.plan, self.runtime)
        except CannotApply as error:
            raise ToolFailed(str(error), task=task, where=place, reason=error.reason) from error
        folder = Path(tempfile.mkdtemp(prefix="tool-", dir=self.folder))
        try:
            made = folder / _MADE / target.name
            (made if target.is_dir() else made.parent).mkdir(parents=True)
            request = ToolRequest(
                task=task,
                model=str(source.absolute()),
                output=str(made.absolute()),
                params=dict(params),
                external_name=f"{target.name}.data",
                feeds=self.feeds,
                applied=(*settings, *self.variables),
                providers=self.plan.providers,
                custom_ops=self.custom_ops,
                fence=self._fence(task, source, params, folder, opened),
            )
            end = self._answer(request, folder)
            if isinstance(end, ToolDone):
                try:
                    _take(made, target)
                except OSError as error:
                    reason: FailureReason = "disk-full" if error.errno == errno.ENOSPC else "load-error"
                    what = f"its result cannot be written: {error.strerror}"
                    raise ToolFailed(what, task=task, where=place, reason=reason) from error
        finally:
            temporary.remove(folder)
        if isinstance(end, TrialError):
            raise ToolFailed(end.what, task=task, where=place, reason=end.reason)
        return end.what

    def _answer(self, request: ToolRequest, folder: Path) -> ToolDone | TrialError:
        """Run a task's process to its end, and return its last message."""
        worker = Worker(self.runtime, folder, self.folder, self.limits)
        try:
            worker.open(request.applied, ["tool"])
            if worker.live:
                worker.phase = "loading"
                worker.send(request)
                worker.follow(ToolDone)
        finally:
            worker.close()
        assert isinstance(worker.end, ToolDone | TrialError)
        return worker.end

    def _fence(
        self,
        task: str,
        source: Path,
        params: Mapping[str, str],
        folder: Path,
        opened: Callable[[Path], OpenModel] = open_model,
    ) -> Fence | None:
        """Return the limits of a task's process; None if it is not confined."""
        others = set(self.plan.provider_names) - {CPU.name}
        if task in _UNCONFINED or others or self.custom_ops or self.runtime.host is not None:
            return None
        models = [source, *map(Path, json.loads(params.get("models", "[]")))]
        reads = [file for model in models for file, _, _ in opened(model).stamps]
        return fence_of([*reads, *(feed.path for feed in self.feeds)], folder, self.limits.memory_share)


def _take(made: Path, target: Path) -> None:
    """Move a result out of its process's folder to ``target``, after the process has ended.

    Only regular files at the agreed path are moved, never a path that the process names.

    Raises:
        OSError: There is no result, or its destination is not writable.
    """
    if not (_is_file(made) or _is_folder(made)):
        raise FileNotFoundError(errno.ENOENT, "there is none", str(made))
    for ending in _ENDINGS:
        _move(made.with_name(made.name + ending), target.with_name(target.name + ending))
    if _is_folder(made):
        target.mkdir(exist_ok=True)
        for entry in sorted(made.iterdir()):
            _move(entry, target / entry.name)
            if _is_folder(entry):  # the outputs of one input
                (target / entry.name).mkdir(exist_ok=True)
                for file in sorted(entry.iterdir()):
                    _move(file, target / entry.name / file.name)


def _move(made: Path, target: Path) -> None:
    if _is_file(made):
        shutil.move(made, target)


def _is_file(path: Path) -> bool:
    return path.is_file() and not path.is_symlink()


def _is_folder(path: Path) -> bool:
    return path.is_dir() and not path.is_symlink()


def _content(feed: FeedRef) -> str:
    """Return the digest of an input folder's contents, regardless of its path."""
    with os.scandir(feed.path) as entries:
        files = sorted((entry.path, entry.stat()) for entry in entries)
    return _digest(tuple((path, about.st_size, about.st_mtime_ns) for path, about in files))


@functools.lru_cache(maxsize=4096)
def _digest(files: tuple[tuple[str, int, int], ...]) -> str:
    """Return the digest of files by content; cached by path, size and time, since each rewrite needs it."""
    digest = hashlib.sha256()
    for name, _, _ in files:
        digest.update(Path(name).name.encode())
        with Path(name).open("rb") as file:
            digest.update(hashlib.file_digest(file, "sha256").digest())
    return digest.hexdigest()
