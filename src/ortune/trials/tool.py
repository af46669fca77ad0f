"""One task of the tool process: start it under the measured interpreter, wait within limits, read its answer."""

from __future__ import annotations

import contextlib
import hashlib
import signal
import subprocess
import tempfile
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import msgspec

from ortune import platform
from ortune.errors import OrtuneError
from ortune.records import (
    Applied,
    Failed,
    FailureReason,
    ProviderSpec,
    Runtime,
    ToolDone,
    ToolMessage,
    ToolRequest,
    TrialError,
)
from ortune.trials import requests
from ortune.trials.archive import write_worker
from ortune.trials.launch import Limits, end_process, over_memory

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
        applied: Settings of the session that a task creates (``requests.applied``).
        providers: Its execution providers.
        custom_ops: Shared libraries with custom operators.
        limits: Time and memory; a task is over when it has loaded the model, so only ``load_s`` counts.
    """

    runtime: Runtime
    folder: Path
    applied: tuple[Applied, ...] = ()
    providers: tuple[ProviderSpec, ...] = ()
    custom_ops: tuple[str, ...] = ()
    limits: Limits = Limits()  # noqa: RUF009  (frozen)

    @property
    def identity(self) -> str:
        """Changes when the same task would give another result."""
        parts = (
            self.runtime.package,
            self.runtime.ort_version,
            platform.host().fingerprint,
            msgspec.json.encode((self.applied, self.providers, self.custom_ops)),
        )
        return hashlib.sha256(repr(parts).encode()).hexdigest()[:16]

    def __call__(self, task: str, source: Path, target: Path, params: Mapping[str, str]) -> str:
        """Do one task; see ``rewrites.Tool``.

        Raises:
            ToolFailed: It could not be done; the message is what the process or ONNX Runtime said.
        """
        request = ToolRequest(
            task=task,
            model=str(source.absolute()),
            output=str(target.absolute()),
            params=dict(params),
            external_name=f"{target.name}.data",
            applied=self.applied,
            providers=self.providers,
            custom_ops=self.custom_ops,
        )
        with tempfile.TemporaryDirectory(prefix="tool-", dir=self.folder, ignore_cleanup_errors=True) as name:
            answer, log = self._ask(request, Path(name))
        if isinstance(answer, ToolDone):
            return answer.what
        raise ToolFailed(
            answer.what, where=f"{task} {source.name}", reason=answer.reason, phase=answer.phase, log=log
        )

    def _ask(self, request: ToolRequest, folder: Path) -> tuple[ToolDone | TrialError, tuple[str, ...]]:
        archive = write_worker(folder)
        said_path, log_path = folder / "said", folder / "log"
        with said_path.open("wb") as said, log_path.open("wb") as log:
            try:
                process = subprocess.Popen(
                    [self.runtime.python, str(archive), "tool"],
                    stdin=subprocess.PIPE,
                    stdout=said,
                    stderr=log,
                    cwd=folder,
                    env=requests.environment(self.applied),
                    start_new_session=True,  # Ctrl-C is ortune's to handle, and a kill reaches all of it
                )
            except OSError as error:
                what = f"cannot start {self.runtime.python}: {error.strerror}"
                return TrialError(reason="no-runtime", what=what, phase="starting"), ()
            try:
                trouble = self._wait(process, msgspec.json.encode(request) + b"\n")
            finally:
                end_process(process)
        lines = log_path.read_bytes()[-_LOG_BYTES:].decode("utf-8", "replace").splitlines()
        log_lines = tuple(line for line in lines if line.strip())[-_LOG_LINES:]
        return trouble or _answer(said_path.read_bytes(), process.returncode), log_lines

    def _wait(self, process: subprocess.Popen[bytes], request: bytes) -> TrialError | None:
        """Sends the request and waits for the end; the error is that of a limit passed."""
        assert process.stdin is not None
        # A process that died before reading leaves a broken pipe; its exit status tells more.
        with contextlib.suppress(BrokenPipeError):
            process.stdin.write(request)
            process.stdin.flush()
        deadline = time.monotonic() + self.limits.load_s
        while True:
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(timeout=_POLL_S)
                return None
            what = over_memory(process, self.limits)
            if what:
                return TrialError(reason="out-of-memory", what=what, phase="loading")
            if time.monotonic() > deadline:
                what = f"cut off, not done after {self.limits.load_s:.0f} s"
                return TrialError(reason="timeout", what=what, phase="loading")


def _answer(said: bytes, code: int) -> ToolDone | TrialError:
    """The process's last word, or why there is none."""
    # A wrapper or a sitecustomize may have printed something first.
    lines = [line for line in said.splitlines() if line.startswith(b"{")]
    if lines:
        try:
            return _decoder.decode(lines[-1])
        except (msgspec.MsgspecError, UnicodeDecodeError) as error:
            what = f"the tool process said something unreadable: {error}"
            return TrialError(reason="protocol", what=what)
    if code < 0:
        name = signal.Signals(-code).name if -code in set(signal.Signals) else f"signal {-code}"
        return TrialError(reason="crash", what=f"the tool process was killed by {name}", phase="loading")
    reason: FailureReason = "crash" if code else "protocol"
    return TrialError(reason=reason, what=f"the tool process exited with code {code} and said nothing")
