"""One task of the tool process: start it under the measured interpreter, wait within limits, read its answer."""

from __future__ import annotations

import hashlib
import queue
import tempfile
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import msgspec

from ortune import launcher, platform
from ortune.errors import OrtuneError
from ortune.records import (
    Applied,
    Failed,
    FailureReason,
    Plan,
    Runtime,
    ToolDone,
    ToolMessage,
    ToolRequest,
    TrialError,
)
from ortune.targets.archive import environment, write_worker
from ortune.targets.machine import over_memory
from ortune.targets.requests import CannotApply, applied
from ortune.targets.task import Limits

_POLL_S = 0.05
_LOG_BYTES = 8_000
_LOG_LINES = 20
_decoder: msgspec.json.Decoder[ToolDone | TrialError] = msgspec.json.Decoder(ToolMessage)

_DO: Mapping[FailureReason, str] = {
    "no-runtime": "Check --python: it must have onnxruntime installed.",
    "disk-full": "Free space there, or set TMPDIR to a folder with more.",
    "out-of-memory": "Free memory, or leave the rewrite out.",
    "timeout": "Leave the rewrite out for this model.",
}


class ToolFailed(OrtuneError):
    """The tool process could not do its task. ``reason`` and ``phase`` are those of a failed trial."""

    exit_code = 2
    default_code = "tool"

    def __init__(
        self,
        what: str,
        *,
        where: str,
        reason: FailureReason,
        phase: str = "",
        log: tuple[str, ...] = (),
    ) -> None:
        do = _DO.get(reason, "See whether ONNX Runtime loads the model at all; if so, leave the rewrite out.")
        super().__init__(what, where=where, do=do, code=f"tool-{reason}")
        self.reason: FailureReason = reason
        self.phase = phase
        self.log = log

    def failed(self, plan: str) -> Failed:
        """The same as the outcome of a plan that could not be tried."""
        return Failed(plan=plan, reason=self.reason, what=self.what, phase=self.phase, log=self.log)


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolProcess:
    """Runs tasks, each in a fresh process of the runtime that is measured.

    Attributes:
        runtime: The interpreter and its onnxruntime.
        folder: Scratch folder of this invocation.
        plan: Settings and providers of the session that a task creates.
        variables: Of the environment, besides.
        custom_ops: Shared libraries with custom operators.
        limits: Time and memory; a task is over when it has loaded the model, so only ``load_s`` counts.
    """

    runtime: Runtime
    folder: Path
    plan: Plan = Plan()  # noqa: RUF009  (frozen)
    variables: tuple[Applied, ...] = ()
    custom_ops: tuple[str, ...] = ()
    limits: Limits = Limits()  # noqa: RUF009  (frozen)

    @property
    def identity(self) -> str:
        """Changes when the same task would give another result."""
        parts = (
            self.runtime.package,
            self.runtime.ort_version,
            platform.host().fingerprint,
            msgspec.json.encode((self.plan, self.variables, self.custom_ops)),
        )
        return hashlib.sha256(repr(parts).encode()).hexdigest()[:16]

    def __call__(self, task: str, source: Path, target: Path, params: Mapping[str, str]) -> str:
        """Do one task; see ``rewrites.Tool``.

        Raises:
            ToolFailed: It could not be done; the message is what the process or ONNX Runtime said.
        """
        place = f"{task} {source.name}"
        try:
            settings = applied(self.plan, self.runtime)
        except CannotApply as error:
            raise ToolFailed(str(error), where=place, reason=error.reason, phase="preparing") from error
        request = ToolRequest(
            task=task,
            model=str(source.absolute()),
            output=str(target.absolute()),
            params=dict(params),
            external_name=f"{target.name}.data",
            applied=(*settings, *self.variables),
            providers=self.plan.providers,
            custom_ops=self.custom_ops,
        )
        with tempfile.TemporaryDirectory(prefix="tool-", dir=self.folder, ignore_cleanup_errors=True) as name:
            answer, log = self._ask(request, Path(name))
        if isinstance(answer, ToolDone):
            return answer.what
        raise ToolFailed(answer.what, where=place, reason=answer.reason, phase=answer.phase, log=log)

    def _ask(self, request: ToolRequest, folder: Path) -> tuple[ToolDone | TrialError, tuple[str, ...]]:
        command = [self.runtime.python, str(write_worker(self.folder)), "tool"]
        log_path = folder / "log"
        with log_path.open("wb") as log:
            try:
                child = launcher.Child(
                    command, environment=environment(request.applied), folder=folder, log=log
                )
            except OSError as error:
                what = f"cannot start {self.runtime.python}: {error.strerror}"
                return TrialError(reason="no-runtime", what=what, phase="starting"), ()
            try:
                # It stays open: to the process, the end of its stdin is ours.
                child.send(msgspec.json.encode(request) + b"\n")
                said = self._listen(child)
            finally:
                code = child.end()
        lines = log_path.read_bytes()[-_LOG_BYTES:].decode("utf-8", "replace").splitlines()
        log_lines = tuple(line for line in lines if line.strip())[-_LOG_LINES:]
        return said if isinstance(said, TrialError) else _answer(said, code), log_lines

    def _listen(self, child: launcher.Child) -> bytes | TrialError:
        """The process's last message, "" where it says none; the error is that of a limit passed."""
        lines, said = child.lines(), b""
        deadline = time.monotonic() + self.limits.load_s
        while True:
            try:
                line = lines.get(timeout=_POLL_S)
            except queue.Empty:
                what = over_memory(child.pid, self.limits.memory_share)
                if what:
                    return TrialError(reason="out-of-memory", what=what, phase="loading")
                if time.monotonic() > deadline:
                    what = f"cut off, not done after {self.limits.load_s:.0f} s"
                    return TrialError(reason="timeout", what=what, phase="loading")
                continue
            if line is None:
                child.wait()
                return said
            # A wrapper or a sitecustomize may have printed something first.
            if line.startswith(b"{"):
                said = line


def _answer(said: bytes, code: int) -> ToolDone | TrialError:
    """The process's last word, or why there is none."""
    if said:
        try:
            return _decoder.decode(said)
        except (msgspec.MsgspecError, UnicodeDecodeError) as error:
            what = f"the tool process said something unreadable: {error}"
            return TrialError(reason="protocol", what=what)
    if code < 0:
        what = f"the tool process was killed by {launcher.signal_name(code)}"
        return TrialError(reason="crash", what=what, phase="loading")
    reason: FailureReason = "crash" if code else "protocol"
    return TrialError(reason=reason, what=f"the tool process exited with code {code} and said nothing")
