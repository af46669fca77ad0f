"""ortune as a user runs it: a real process in a folder, home, store and lock of its own."""

from __future__ import annotations

import json
import os
import signal
import sqlite3
import subprocess
import sys
import time
import zlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

import numpy as np
import onnx
from onnx import helper, numpy_helper

from onnx_text import assemble
from within import place, program

WIDTH = 64
PATIENCE_S = 120
# One thread: a pool of several spins, which takes the CPUs from the tests beside this one.
FEW = ("--budget", "40s", "--max-blocks", "6", "--set", "intra=1", "--json")


@dataclass(frozen=True, slots=True, kw_only=True)
class Done:
    """A command that has ended."""

    code: int
    out: str
    err: str

    @property
    def document(self) -> dict[str, Any]:
        """The one JSON document on stdout."""
        found: dict[str, Any] = json.loads(self.out)
        return found


class Box:
    """A place for one test; nothing of it is shared with another test or with the user."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.lock = folder / "lock"
        self.environment = {
            "PATH": os.environ.get("PATH", os.defpath),
            "HOME": str(folder / "home"),
            "TMPDIR": str(folder / "tmp"),
            "ORTUNE_LOCK": str(self.lock),
        }
        if "PYTHONPATH" in os.environ:
            self.environment["PYTHONPATH"] = os.environ["PYTHONPATH"]
        for name in ("home", "tmp"):
            (folder / name).mkdir()
        save_model(folder / "m.onnx")
        save_model(folder / "other.onnx", scale=0.5)

    def start(
        self,
        *arguments: str,
        env: Mapping[str, str] | None = None,
        python: Sequence[str] = (sys.executable, "-m", "ortune"),
        stdout: IO[bytes] | int | None = None,
        prepare: Callable[[], None] | None = None,
    ) -> Running:
        """Starts ortune; its output goes to files, so that a test can wait for what it says."""
        number = len(list(self.folder.glob("*.err")))
        out, err = (self.folder / f"{number}.{kind}" for kind in ("out", "err"))
        with out.open("wb") as out_file, err.open("wb") as err_file:
            process = subprocess.Popen(
                [*python, *arguments],
                cwd=self.folder,
                env={**self.environment, **(env or {})},
                stdin=subprocess.DEVNULL,
                stdout=stdout or out_file,
                stderr=err_file,
                start_new_session=True,
                preexec_fn=lambda: _child(prepare),
            )
        return Running(self, process, out, err)

    def run(self, *arguments: str, **how: Any) -> Done:
        """Runs ortune to its end; whatever happens, no worker and no temporary folder may be left."""
        done = self.start(*arguments, **how).wait()
        assert self.workers() == []
        assert list((self.folder / "tmp").iterdir()) == []
        return done

    def here(self, *arguments: str, env: Mapping[str, str] | None = None) -> Done:
        """Runs ortune's program within this process, which saves its start: where no fault is of its own process."""
        with place(self.folder, {**self.environment, **(env or {})}):
            code, out, err = program(arguments)
        assert self.workers() == []
        assert list((self.folder / "tmp").iterdir()) == []
        return Done(code=code, out=out, err=err)

    def compare(self, *arguments: str, **how: Any) -> Done:
        """``ortune compare`` with a small budget and JSON, within this process."""
        return self.here("compare", *arguments, *FEW, **how)

    def inputs(self) -> str:
        """A file of them: with inputs of its own a session is not timed on several kinds of invented ones."""
        np.savez(self.folder / "x.npz", x=np.ones((1, WIDTH), np.float32))
        return "x.npz"

    def workers(self) -> list[int]:
        """Processes that run this box's copy of the worker."""
        mine = os.fsencode(self.folder)
        found = []
        for entry in os.scandir("/proc"):  # asked many times a second: a Path for each takes twice as long
            if not entry.name.isdigit():
                continue
            try:
                command = Path(entry.path, "cmdline").read_bytes()
            except OSError:
                continue  # ended meanwhile
            if mine in command and b"ortune-worker" in command:
                found.append(int(entry.name))
        return found

    def events(self, kind: str) -> list[Any]:
        """What the store has journalled of a kind so far; long events are read from their blobs."""
        return [body for _, body in self.journal("WHERE kind = ?", kind)]

    def racing(self, *phases: str) -> bool:
        """Whether the newest block is of one of these phases."""
        # Asked again and again while a session runs: all blocks of one take a second to read.
        newest = self.journal("WHERE kind = ?", "block", order="session DESC, seq DESC LIMIT 1")
        return bool(newest) and newest[0][1]["phase"] in phases

    def journal(self, where: str = "", *values: str, order: str = "session, seq") -> list[tuple[str, Any]]:
        """Kind and body of what the store has journalled so far."""
        path = self.folder / "home" / ".local" / "share" / "ortune" / "ortune.sqlite"
        if not path.exists():
            return []
        with sqlite3.connect(f"file:{path}?mode=ro", uri=True, timeout=10) as db:
            try:
                rows = db.execute(
                    f"SELECT kind, body, blob FROM event {where} ORDER BY {order}", values
                ).fetchall()
            except sqlite3.OperationalError:
                return []  # the tables are not made yet
        blobs = path.parent / "blobs"

        def text(body: str | None, blob: str | None) -> bytes:
            return body.encode() if blob is None else zlib.decompress((blobs / blob[:2] / blob).read_bytes())

        return [(kind, json.loads(text(body, blob))) for kind, body, blob in rows]


class Running:
    """A command that may still run."""

    def __init__(self, box: Box, process: subprocess.Popen[bytes], out: Path, err: Path) -> None:
        self.box, self.process, self._out, self._err = box, process, out, err

    @property
    def err(self) -> str:
        """Everything on stderr so far."""
        return self._err.read_text()

    def until(self, condition: Callable[[], Any]) -> Any:
        """Waits for a condition while the command runs and returns what it gave."""
        deadline = time.monotonic() + PATIENCE_S
        while not (found := condition()):
            assert self.process.poll() is None, f"ended too early: {self.err}"
            assert time.monotonic() < deadline, f"waited in vain: {self.err}"
            time.sleep(0.02)
        return found

    def signal(self, number: signal.Signals) -> None:
        """Sends a signal: Ctrl-C to everything in the foreground as a terminal does, others to ortune alone."""
        if number == signal.SIGINT:
            os.killpg(self.process.pid, number)
        else:
            self.process.send_signal(number)

    def wait(self) -> Done:
        """Waits for the end and returns how it was."""
        try:
            code = self.process.wait(PATIENCE_S)
        finally:
            self.kill()
        return Done(code=code, out=self._out.read_text(), err=self.err)

    def kill(self) -> None:
        """Ends the command if it still runs."""
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()


def eventually(condition: Callable[[], Any]) -> Any:
    """Waits for a condition, 60 s at most."""
    deadline = time.monotonic() + PATIENCE_S
    while not (found := condition()):
        assert time.monotonic() < deadline, "waited in vain"
        time.sleep(0.005)
    return found


def refused(done: Done, code: int, name: str) -> dict[str, Any]:
    """Checks that a command ended with one clear error, and returns it as JSON gives it."""
    assert done.code == code, done.err
    assert done.document["status"] == ("interrupted" if code == 130 else "error")
    error: dict[str, Any] = done.document["error"]
    assert error["code"] == name
    assert error["what"]
    assert f"ortune: {error['where']}" in done.err
    # Further lines of what ONNX Runtime said are indented, so that none can be taken for one of ortune's own.
    assert " ".join(error["what"].split()) in " ".join(done.err.split())
    assert "Traceback" not in done.err
    return error


def save_model(path: Path, *, scale: float = 0.1, **how: Any) -> None:
    """A matrix product and a Relu; ``how`` goes to ``onnx.save``."""
    rng = np.random.default_rng(0)
    weights = rng.standard_normal((WIDTH, WIDTH), dtype=np.float32) * scale
    save_graph(
        path,
        [helper.make_node("MatMul", ["x", "w"], ["h"]), helper.make_node("Relu", ["h"], ["y"])],
        ["batch", WIDTH],
        [numpy_helper.from_array(weights.astype(np.float32), "w")],
        **how,
    )


def save_graph(
    path: Path,
    nodes: Sequence[onnx.NodeProto],
    shape: Sequence[int | str],
    weights: Sequence[onnx.TensorProto] = (),
    **how: Any,
) -> None:
    """A model from input ``x`` to output ``y``, both float, of the same shape."""
    proto = assemble(nodes, "float[] x", "float[] y", weights, opset=13, ir_version=7, opsets={"acme": 1})
    for size in shape:  # names of sizes that no text holds
        dim = proto.graph.input[0].type.tensor_type.shape.dim.add()
        if isinstance(size, int):
            dim.dim_value = size
        else:
            dim.dim_param = size
    onnx.save(proto, path, **how)


def _child(prepare: Callable[[], None] | None) -> None:
    """A test run in the background may have been started with Ctrl-C ignored, and that is inherited."""
    signal.signal(signal.SIGINT, signal.default_int_handler)
    for number in (signal.SIGHUP, signal.SIGQUIT):
        signal.signal(number, signal.SIG_DFL)
    if prepare:
        prepare()
