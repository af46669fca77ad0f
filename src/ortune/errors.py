"""Every error that ortune raises on purpose.

    OrtuneError                 base; carries code, what, where, do and an exit code
    ├── UsageError              the command or its arguments cannot be used            (exit 2)
    │   ├── ModelError          the model cannot be read or is not a model
    │   ├── InputError          the model cannot be fed: names the input and the flag
    │   ├── RuntimeNotFound     no interpreter with a usable onnxruntime
    │   └── BusyError           another ortune is measuring and --no-wait was given
    ├── StoreError              the store cannot be written                            (exit 2)
    ├── targets.tool.ToolFailed ONNX Runtime could not make a rewritten model          (exit 2)
    ├── MeasurementError        the controls failed, or every trial failed             (exit 3)
    │   └── assigned_host.HostLost  a host of a cluster no longer answers
    └── Interrupted             stopped before there was any result                    (exit 130)

A failed trial is not an exception: it is the record ``Failed``.
"""

from __future__ import annotations

from ortune.printable import lines, visible


class OrtuneError(Exception):
    """An error with one clear message: what happened, where, and what to do.

    Args:
        what: What happened, one sentence.
        where: The file, input, option or process it happened in.
        do: The remedy, for the user.
        code: A short stable name, used in JSON.
    """

    exit_code = 4
    default_code = "internal"

    def __init__(self, what: str, *, where: str = "", do: str = "", code: str | None = None) -> None:
        super().__init__(what)
        self.what = what
        self.where = where
        self.do = do
        self.code = code or self.default_code

    def __str__(self) -> str:
        """Return the message for printing; names from files are escaped."""
        place = f"{visible(self.where)}: " if self.where else ""
        hint = f"\n  -> {self.do}" if self.do else ""
        return lines(f"{place}{self.what}{hint}")


def internal(error: BaseException) -> OrtuneError:
    """Return the error to show for an exception that ortune did not raise on purpose."""
    return OrtuneError(
        f"internal error: {type(error).__name__}: {error}",
        do="this is a bug in ortune; run again with ORTUNE_DEBUG=1 and report what it prints",
    )


class UsageError(OrtuneError):
    """The command, an option or an input file cannot be used."""

    exit_code = 2
    default_code = "usage"


class ModelError(UsageError):
    """The model cannot be read, or is not a model."""

    default_code = "model"


class InputError(UsageError):
    """The model cannot be fed; the message names the input and the flag that helps."""

    default_code = "input"


class RuntimeNotFound(UsageError):
    """No interpreter with a usable onnxruntime was found."""

    default_code = "no-runtime"


class BusyError(UsageError):
    """Another ortune is measuring on this machine."""

    default_code = "busy"


class StoreError(OrtuneError):
    """The store cannot be opened or written."""

    exit_code = 2
    default_code = "store"


class MeasurementError(OrtuneError):
    """Nothing can be claimed: the controls failed, or every trial failed."""

    exit_code = 3
    default_code = "measurement"


class Interrupted(OrtuneError):
    """Stopped by the user or the system before there was any result."""

    exit_code = 130
    default_code = "interrupted"


class Stopped(KeyboardInterrupt):
    """Ctrl-C or a termination signal while a command runs; code that continues after failures must not catch it."""
