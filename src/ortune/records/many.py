"""One command on several models: a row for each."""

from __future__ import annotations

from typing import Literal

from ortune.records.base import Record
from ortune.records.envelope import Configured, ErrorInfo

RowUnit = Literal["ns", "bytes", "ratio", "per-second", "share", "count", "cost"]
"""A "ratio" is the new value divided by the old one; a "share" is a fraction of 1; a "cost" has the currency of the
prices."""
RowStatus = Literal["ok", "interrupted", "error", "default-wrong", "missing"]


class RowFigure(Record, frozen=True, kw_only=True):
    """A metric of one model.

    Attributes:
        name: Name of the metric, which is the head of its column.
        low, high: Interval of the value; None if there is none.
    """

    name: str
    unit: RowUnit
    value: float
    low: float | None = None
    high: float | None = None


class ModelRow(Record, frozen=True, kw_only=True):
    """The answer for one model.

    Attributes:
        path: The model as given, or as found in a folder.
        host: The name of the machine that ran it; "" if no machines were named.
        machine: The processor and its CPUs, if machines were named.
        runtime: The ONNX Runtime there, with its version.
        sha256: Identity of the model; "" if the file could not be read.
        status: As in the model's own document; "missing" if it was not reached.
        verdict: As in the model's own document; "" without one.
        answer: The verdict in a few words; "" if there is no answer.
        headline: The answer in one sentence.
        alarm: Whether outputs are wrong, differ, or changed.
        figures: Measured metrics, the most important first.
        needs: Requirements of the answer: settings, rewrites, releases, files.
        remarks: Further remarks.
        session: The stored session with the whole document; "" if it was not stored.
        bundle: The folder of its bundle; "" for none.
        page: Path of the model's HTML page; "" for none.
        exit_code: The exit code of the command for only this model.
        error: Why there is no answer, or why something is missing; None otherwise.
        configured: Options that a project's configuration file set for it; None if there are none.
    """

    path: str
    host: str = ""
    machine: str = ""
    runtime: str = ""
    sha256: str = ""
    status: RowStatus = "ok"
    verdict: str = ""
    answer: str = ""
    headline: str = ""
    alarm: bool = False
    figures: tuple[RowFigure, ...] = ()
    needs: tuple[str, ...] = ()
    remarks: tuple[str, ...] = ()
    session: str = ""
    bundle: str = ""
    page: str = ""
    exit_code: int = 0
    error: ErrorInfo | None = None
    configured: Configured | None = None


class BestHost(Record, frozen=True, kw_only=True):
    """The best machine for a model, compared with the second best.

    Attributes:
        path: Path of the model.
        figure: The metric by which machines are ordered: "cost per million" or "p50".
        host, other: The best machine and the second best.
        ratio: Value of the best machine divided by that of the second best.
        ratio_low, ratio_high: Interval of ``ratio``; None if one of the two values has no interval.
    """

    path: str
    figure: str
    host: str
    other: str
    ratio: float
    ratio_low: float | None = None
    ratio_high: float | None = None

    @property
    def is_clear(self) -> bool:
        """Whether the interval of the ratio is below 1."""
        return self.ratio_high is not None and self.ratio_high < 1


class ManyResult(Record, frozen=True, kw_only=True):
    """``result`` of a command with several models and ``--json``.

    Attributes:
        verb: The command that ran on each model, such as "bench".
        models: A row for each model, in the order given.
        best: The best machine for each model, if machines were named.
        on: Engine of the cluster that runs the models ("ray"); ``host`` then names a kind of hosts. "" without a
            cluster.
        currency: Currency of ``--price``; "" without one.
        set_aside: Hosts of a cluster whose results were not used: "slow" if the host took twice as long as others of
            its kind, "invalid" if its checks failed and those of another host did not.
        exports: Files written with ``--export``, by kind.
        session: The stored session of all models; each row has its own.
        resume: The command that continues with the missing models; "" if none is missing.
    """

    verb: str
    models: tuple[ModelRow, ...]
    best: tuple[BestHost, ...] = ()
    on: str = ""
    currency: str = ""
    set_aside: dict[str, str] = {}
    exports: dict[str, str] = {}
    session: str = ""
    resume: str = ""
    elapsed_s: float = 0.0
