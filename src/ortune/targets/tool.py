"""One task of the tool process: start it under the measured interpreter, wait within limits, read its answer."""

from __future__ import annotations

import functools
import hashlib
import os
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import msgspec

from ortune import platform
from ortune.errors import OrtuneError
from ortune.graph.model.open import open_model
from ortune.records import (
    Applied,
    FailureReason,
    FeedRef,
    Plan,
    Runtime,
    ToolDone,
    ToolRequest,
    TrialError,
)
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
"""Tasks that no rewrite needs."""
_DO_LOOKING: Mapping[FailureReason, str] = {
    "out-of-memory": "Free memory, and try again.",
    "timeout": "Try again when the machine is idle.",
}

_COPIES: Mapping[str, tuple[float, float]] = {
    "quantize-prepare": (6.0, 4.5), "quantize-dynamic": (5.0, 4.5), "quantize-static": (6.0, 4.5),
    "quantize-weights": (2.2, 2.0), "smooth": (4.0, 4.0), "float16": (3.0, 3.0),
}  # fmt: skip
"""How many times a model's size a task holds in memory at its peak: below 1 GiB, where its weights are copied with the
model, and from there on, where they stay in files. Of other tasks it is not known.

``benchmarks/quantize_memory.py`` measures blocks of large products, by the table in ``docs/precision.md``. Of a
transformer above 1 GiB whose table of embeddings is most of it were measured: 4.33 for dynamic int8 with its
preparation, 1.82 for 4-bit weights. That of float16 is an estimate.
"""
_IN_FILES_BYTES = 1 << 30
"""From this size on quantizers leave weights in files."""


def peak_bytes(task: str, model_bytes: int) -> int:
    """The memory that a task takes at its peak; 0 where that is not known."""
    below, above = _COPIES.get(task, (0.0, 0.0))
    return int((above if model_bytes >= _IN_FILES_BYTES else below) * model_bytes)


class ToolFailed(OrtuneError):
    """The tool process could not do its task, for a reason as a trial's."""

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
    """Runs tasks, each in a fresh process of the runtime that is measured.

    Attributes:
        runtime: The interpreter and its onnxruntime.
        folder: Scratch folder of this invocation.
        plan: Settings and providers of the session that a task creates.
        variables: Of the environment, besides.
        custom_ops: Shared libraries with custom operators.
        feeds: Inputs for a task that runs the model.
        limits: Time and memory; a task is over when it has loaded the model, so only ``load_s`` counts.
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
        """Changes when the same task would give another result."""
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
        """Do one task; see ``rewrites.Tool``.

        Raises:
            ToolFailed: It could not be done; the message is what the process or ONNX Runtime said. A task for which
                this machine has not the memory is not begun.
        """
        place = f"{task} {source.name}"
        if task in _COPIES and self.runtime.host is None:
            needed = peak_bytes(task, open_model(source).size_bytes)
            lacking = short_of_memory(needed, self.limits.memory_share)
            if lacking:
                raise ToolFailed(lacking, task=task, where=place, reason="out-of-memory")
        try:
            settings = applied(self.plan, self.runtime)
        except CannotApply as error:
            raise ToolFailed(str(error), task=task, where=place, reason=error.reason) from error
        request = ToolRequest(
            task=task,
            model=str(source.absolute()),
            output=str(target.absolute()),
            params=dict(params),
            external_name=f"{target.name}.data",
            feeds=self.feeds,
            applied=(*settings, *self.variables),
            providers=self.plan.providers,
            custom_ops=self.custom_ops,
        )
        with tempfile.TemporaryDirectory(prefix="tool-", dir=self.folder, ignore_cleanup_errors=True) as name:
            worker = Worker(self.runtime, Path(name), self.folder, self.limits)
            try:
                worker.open(request.applied, ["tool"])
                if worker.live:
                    worker.phase = "loading"
                    worker.send(request)
                    worker.follow(ToolDone)
            finally:
                worker.close()
        if isinstance(worker.end, ToolDone):
            return worker.end.what
        assert isinstance(worker.end, TrialError)
        raise ToolFailed(worker.end.what, task=task, where=place, reason=worker.end.reason)


def _content(feed: FeedRef) -> str:
    """The digest of a folder of inputs: another place with the same values is the same."""
    with os.scandir(feed.path) as entries:
        files = sorted((entry.path, entry.stat()) for entry in entries)
    return _digest(tuple((path, about.st_size, about.st_mtime_ns) for path, about in files))


@functools.lru_cache(maxsize=4096)
def _digest(files: tuple[tuple[str, int, int], ...]) -> str:
    """The digest of files by path, size and time: each rewrite of a session asks for that of all its inputs."""
    digest = hashlib.sha256()
    for name, _, _ in files:
        digest.update(Path(name).name.encode())
        with Path(name).open("rb") as file:
            digest.update(hashlib.file_digest(file, "sha256").digest())
    return digest.hexdigest()
