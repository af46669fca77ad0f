"""A trial of a source in its framework, which takes turns with trials of ONNX Runtime by the same messages."""

from __future__ import annotations

import importlib
import os
import re
import sys
import tempfile
from typing import Any, NoReturn

from ..worker import cases, channels, failures, held, timing, trial
from ..worker.protocol import VERSION, Link, Stop
from .source import Source, SourceRefused

MODULES = {
    "torch": "torch_model",
    "tensorflow": "tensorflow_model",
    "tflite": "tensorflow_model",
    "fitted": "fitted_model",
}
"""Modules that open a source, by its kind; a closed list."""
THREADS = "intra_op_num_threads"
_COLOURS = re.compile(r"\x1b\[[0-9;]*m")


def open_source(request: dict[str, Any]) -> Source:
    """Return the source of a request, after importing its framework."""
    # This process starts in a scratch folder of ortune, so files left by a framework are removed with it.
    tempfile.tempdir = os.getcwd()
    if request["factory"]:
        os.chdir(request["folder"])
    module = importlib.import_module("." + MODULES[request["kind"]], __package__)
    opened: Source = module.open_source(request)
    return opened


def run(request: dict[str, Any], link: Link, lacking: str = "") -> NoReturn:
    """Run one trial from its request to its report, unless ``lacking`` says why the process could not be confined."""
    failures.conclude(link, lambda: _run(request, link, lacking), first_error_text)


def _run(request: dict[str, Any], link: Link, lacking: str) -> None:
    link.phase = "loading"
    if lacking:
        raise Stop("unsupported", lacking)
    link.send("ready", version=VERSION, pid=os.getpid(), python=sys.version.split()[0])
    trial.follow(SourceTrial(request, link), link)


class SourceTrial(trial.Trial):
    """A source as its framework runs it.

    Args:
        request: Request with the source, its call style, and the trial's part.
        link: Connection to ortune.
    """

    source: Source

    def __init__(self, request: dict[str, Any], link: Link) -> None:
        super().__init__(request["trial"], link)
        self.side, self.threads, self.fence = request["side"], request["threads"], request["fence"]

    def load(self) -> None:
        """Import the framework and open the source."""
        channels.apply_process(self.request["applied"])
        for item in self.request["applied"]:
            if item["channel"] != "process" and item["knob"] != THREADS:
                raise Stop("unsupported", "%s is a setting of ONNX Runtime" % item["knob"], item["knob"])
        if self.request["sessions"] != 1:
            raise Stop(
                "unsupported",
                "a framework's side has one copy of its model, not %d" % self.request["sessions"],
            )
        if self.request["profile_path"]:
            raise Stop("unsupported", "ONNX Runtime's profiler does not support other frameworks")
        self.base_bytes = held.resident_bytes("VmRSS")
        start = timing.CLOCK()
        try:
            self.source = open_source({**self.side, "threads": self.threads, "fence": self.fence})
        except SourceRefused as error:
            raise Stop("unsupported", error.what) from error
        self.load_ns = timing.CLOCK() - start

    def make_callers(self) -> list[list[cases.TimedCase]]:
        """Return the cases of each caller."""
        return [[self._case(feed) for feed in self.request["feeds"]] for _ in range(self.request["callers"])]

    def _case(self, feed: dict[str, Any]) -> cases.TimedCase:
        from ..worker import values

        fed, _ = values.read_feeds(feed["path"])
        feeds = {self.side["inputs"].get(name, name): value for name, value in fed.items()}
        call = self.source.prepared(feeds, self.side["style"])
        outputs: list[tuple[str, str]] = []

        def read() -> list[Any]:
            results = self.source.outputs_of(call(), feeds)
            names = [*self.side["outputs"], *(name for name, _ in results[len(self.side["outputs"]) :])]
            outputs[:] = [(name, type_of(value)) for name, (_, value) in zip(names, results, strict=False)]
            return [value for _, value in results]

        return cases.TimedCase(feed, call, lambda: outputs, read)

    def report(self) -> dict[str, Any]:
        """Return the measurements, with the number of threads reported by the framework."""
        counts = [item for item in self.request["applied"] if item["knob"] == THREADS]
        return {**super().report(), "read_back": [self._read_back(item) for item in counts]}

    def _read_back(self, item: dict[str, Any]) -> dict[str, Any]:
        has = self.source.threads()
        threads = "" if has is None else "%d %s" % (has, "thread" if has == 1 else "threads")
        level = "none" if has is None else "effect"
        return {"knob": item["knob"], "level": level, "ok": has in (None, item["value"]), "seen": threads}


def type_of(value: Any) -> str:
    """Return the ONNX type of an array."""
    from .source import onnx_type

    return "tensor(%s)" % onnx_type(value.dtype)


def first_error_text(error: BaseException) -> str:
    """Return the text of the first error, since exporters wrap it in pages of advice."""
    # XGBoost's errors end with addresses of its library.
    return _COLOURS.sub("", failures.first_lines(cause(error))).partition("\nStack trace:")[0].strip()


def cause(error: BaseException) -> BaseException:
    """Return the first error in a chain."""
    while error.__cause__ is not None:
        error = error.__cause__
    return error
