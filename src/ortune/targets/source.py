"""Process of a framework under its own interpreter, which answers requests one by one, or is timed as a trial."""

from __future__ import annotations

import contextlib
import os
import queue
import shutil
from pathlib import Path
from types import TracebackType
from typing import Self, TypeVar

import msgspec

from ortune import durations, files, launcher, monotonic
from ortune.catalogue.named import INTRA_OP_NUM_THREADS as INTRA_OP
from ortune.errors import OrtuneError
from ortune.records import (
    Applied,
    ExportSource,
    OpenSource,
    Record,
    RunSource,
    SourceAnswer,
    SourceFailed,
    SourceReady,
    SourceRequest,
    TimeSource,
    TrialError,
    source_answers,
)
from ortune.runtimes.environment import clean_environment
from ortune.targets.archive import write_sources
from ortune.targets.fence import FreeSpaceMonitor, Lacking, fence_of
from ortune.targets.machine import held_bytes, over_memory
from ortune.targets.process import ProcessRunner
from ortune.targets.task import Limits

Answer = TypeVar("Answer", bound=Record)
_POLL_S = 0.1
_ENDING_S = 2.0
"""Seconds for a process to end after it closed its output."""
_LOG = "source.log"
_LOG_BYTES = 16_000
_QUIET = {"CUDA_VISIBLE_DEVICES": "-1", "TF_CPP_MIN_LOG_LEVEL": "3", "TOKENIZERS_PARALLELISM": "false"}
"""Variables that hide GPUs and reduce logging; a source is exported, checked and timed on the CPU."""
_DO = {
    "out-of-memory": "free memory, and try again",
    "disk-full": "free disk space, or set TMPDIR",
}
_DOING = {OpenSource: "opening", ExportSource: "exporting", RunSource: "running"}
_SMALLER = "use a smaller model, or smaller inputs: --shape, --inputs"
RUN_S = 120.0
"""Time limit of one run in seconds; a loop in a source may never end."""
_ENDLESS = "check that its loops end; or use smaller inputs: --shape, --inputs"
NEVER_OPEN = "check that its loops end"
"""Advice for a source that is not open within its limit."""
_THREADS = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")
_COMPILED = "compiled"
"""Name of the folder with code from torch.compile, which the trials of one invocation share."""


class SourceProcessFailed(OrtuneError):
    """A process of a framework could not carry out a request."""

    exit_code = 2
    default_code = "source"

    def __init__(self, failed: SourceFailed, where: str) -> None:
        super().__init__(failed.what, where=where, do=failed.do, code=f"source-{failed.reason}")
        self.reason = failed.reason


class SourceProcess:
    """A process of a framework, alive until its context is left.

    Args:
        python: Interpreter of the process.
        folder: Initial working directory of the process, with its log; the only folder that it may write to. Its
            program is next to this folder, because no process may be started from files that another process could
            have written.
        where: Name of the source, for errors.
        limits: Memory limit, and time limits: ``run_s`` for each run, ``load_s`` for any other request.
        never_open: Advice for a source that is not open within its limit.
    """

    def __init__(
        self,
        python: str,
        folder: Path,
        where: str,
        limits: Limits = Limits(run_s=RUN_S),  # noqa: B008
        never_open: str = NEVER_OPEN,
    ) -> None:
        self.folder = folder
        self._where, self._limits = where, limits
        self._advice = {OpenSource: never_open, ExportSource: _SMALLER, RunSource: _ENDLESS}
        folder.mkdir(parents=True, exist_ok=True)
        self._log = folder / _LOG
        with self._log.open("wb") as log:
            self._child = launcher.Child(
                [python, str(write_sources(folder.parent))],
                environment=clean_environment(_QUIET),
                folder=folder,
                log=log,
            )
        self._lines = self._child.lines()
        self._room = FreeSpaceMonitor(folder)

    def __enter__(self) -> Self:
        """Return this process."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """End the framework's process."""
        self._child.end()

    def ask(self, request: SourceRequest, answer: type[Answer]) -> Answer:
        """Send a request and return the result; the process is then stopped until the next request.

        A stopped process cannot change the files that it wrote, so they can be read safely.

        Raises:
            SourceProcessFailed: The request was refused, failed, or ended the process.
        """
        self._child.sleep(False)
        self._child.send(msgspec.json.encode(request) + b"\n")
        most_s = self._limits.run_s if isinstance(request, RunSource) else self._limits.load_s
        deadline = monotonic.now_s() + most_s
        while True:
            # Limits are also checked while messages keep arriving.
            reply = self._listen() or self._over_limits(deadline, most_s, request)
            if isinstance(reply, SourceFailed):
                self._child.sleep(True)
                raise SourceProcessFailed(reply, self._where)
            if isinstance(reply, answer):
                self._child.sleep(True)
                return reply

    def copy_out(self, folder: Path, target: Path) -> None:
        """Move files of the process to a new folder, as copies, since the process may still have the originals open."""
        target.mkdir()
        with contextlib.suppress(FileNotFoundError, NotADirectoryError):
            for file in sorted(folder.iterdir()):
                if files.is_file(file):
                    shutil.copyfile(file, target / file.name)
        shutil.rmtree(folder, ignore_errors=True)

    def _over_limits(self, deadline: float, most_s: float, request: SourceRequest) -> SourceFailed | None:
        what = over_memory(held_bytes(self._child.pid), self._limits.memory_share)
        lacking: Lacking | None = ("out-of-memory", what) if what else self._room.lacking()
        failed = None
        if lacking is not None:
            failed = SourceFailed(reason=lacking[0], what=lacking[1], do=_DO[lacking[0]])
        elif monotonic.now_s() > deadline:
            what = f"{_DOING[type(request)]} the source took more than {durations.in_words(most_s)}"
            failed = SourceFailed(reason="timeout", what=what, do=self._advice[type(request)])
        if failed is not None:
            self._child.end()
        return failed

    def _listen(self) -> SourceAnswer | None:
        try:
            line = self._lines.get(timeout=_POLL_S)
        except queue.Empty:
            return None
        if line is None:
            signal = launcher.signal_name(self._child.ended_within(_ENDING_S) or 0)
            how = f" by {signal}, a crash of the framework" if signal else ""
            return SourceFailed(reason="crash", what=f"its process ended{how}: {self._last_words()}")
        try:
            message = source_answers.decode(line)
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
            return None  # printed by a module during its import, before stdout is redirected
        return None if isinstance(message, SourceReady) else message

    def _last_words(self) -> str:
        if not files.is_file(self._log):  # the process can change its log
            return "its log is gone"
        with self._log.open("rb") as log:
            log.seek(max(0, log.seek(0, os.SEEK_END) - _LOG_BYTES))
            text = log.read(_LOG_BYTES).decode("utf-8", "replace")
        lines = [line.strip() for line in text.splitlines() if line.strip()]
        return lines[-1] if lines else "it printed nothing"


class SourceRunner(ProcessRunner):
    """Runner of a trial of a source model in its framework's process, which takes turns as a worker does."""

    def start(self) -> None:
        """Start the process, and monitor free disk space and memory from then on."""
        self._room = FreeSpaceMonitor(self.folder)
        super().start()

    def program(self) -> Path:
        """Return the path of the zipapp for the framework's interpreter."""
        return write_sources(self.scratch)

    def environment(self, settings: tuple[Applied, ...]) -> dict[str, str]:
        """Return the environment, with the number of threads for libraries that read it only from variables."""
        compiler = {
            "TORCHINDUCTOR_CACHE_DIR": str(self.scratch / _COMPILED),
            "TORCHINDUCTOR_COMPILE_THREADS": "1",  # helper processes would not be stopped between turns
        }
        threads = _threads(settings)
        return clean_environment(
            _QUIET | compiler | (dict.fromkeys(_THREADS, str(threads)) if threads else {})
        )

    def request(self, settings: tuple[Applied, ...]) -> TimeSource:
        """Return the first request to the process."""
        side, trial = self.runtime.source, self.task.request
        assert side is not None
        trial = msgspec.structs.replace(trial, applied=(*settings, *trial.applied))
        # A function may read its own folder, from which its module imports others.
        reads = [side.folder if side.factory else side.source, *(feed.path for feed in trial.feeds)]
        limits = None if side.trusted else fence_of(reads, self.folder, self.limits.memory_share)
        return TimeSource(side=side, threads=_threads(settings), trial=trial, fence=limits)

    def _over_limits(self) -> TrialError | None:
        failed = super()._over_limits()
        if failed is None and (lacking := self._room.lacking()) is not None:
            failed = self.error(*lacking)
        return failed


def _threads(settings: tuple[Applied, ...]) -> int:
    """Return the number of threads within an operator; 0 for the framework's default."""
    return next((int(item.value) for item in settings if item.knob == INTRA_OP.name), 0)
