"""A process that has imported ONNX Runtime and the worker, and becomes a worker by forking whenever it is asked to.

python tests/warm_start.py FD FOLDER [session] [spins] [MODULE ...]: FD is its end of a socket, FOLDER holds the
worker's package; with "session" it has opened a session before it forks, and with "spins" idle threads of sessions spin
as long as they do for users.
"""

from __future__ import annotations

import contextlib
import ctypes
import gc
import importlib
import json
import os
import select
import signal
import socket
import sys
import traceback
from pathlib import Path
from typing import Any

TITLE_BYTES = 1024
"""Room for the command line that a worker shows."""
SESSION, SPINS = "session", "spins"


def serve(link: socket.socket) -> dict[str, Any]:
    """Forks for each request and reports each end; returns in the fork, with what it is asked to be."""
    woken, wake = os.pipe()
    for end in (woken, wake):
        os.set_blocking(end, False)
    signal.set_wakeup_fd(wake)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    while True:
        ready = select.select([link, woken], [], [])[0]
        if woken in ready:
            os.read(woken, 4096)
            report(link)
        if link in ready:
            text, files, _, _ = socket.recv_fds(link, 1 << 20, 3)
            if not text:
                os._exit(0)  # the tests are over, and so are all workers: each dies with its parent
            pid = os.fork()
            if pid == 0:
                signal.set_wakeup_fd(-1)
                signal.signal(signal.SIGCHLD, signal.SIG_DFL)
                for end in (woken, wake):
                    os.close(end)
                link.close()
                return {**json.loads(text), "files": files}
            for file in files:
                os.close(file)
            link.send(json.dumps({"started": pid}).encode())


def report(link: socket.socket) -> None:
    """Says of each fork that has ended how it did."""
    while True:
        try:
            pid, status = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return
        if pid == 0:
            return
        link.send(json.dumps({"ended": pid, "code": os.waitstatus_to_exitcode(status)}).encode())


def become(asked: dict[str, Any]) -> None:
    """Takes over session, files, folder, environment and command line."""
    os.setsid()
    for number, file in enumerate(asked["files"]):
        os.dup2(file, number)
        os.close(file)
    os.chdir(asked["folder"])
    os.environ.clear()
    os.environ.update(asked["environment"])
    sys.argv[:] = asked["command"][1:]
    show(asked["command"])


def show(command: list[str]) -> None:
    """Writes the command line to where the system reads it."""
    fields = Path("/proc/self/stat").read_text().rpartition(")")[2].split()
    begin, end = int(fields[45]), int(fields[46])
    text = b"\0".join(os.fsencode(word) for word in command)[: end - begin - 1]
    ctypes.memmove(begin, text.ljust(end - begin, b"\0"), end - begin)


def open_session() -> None:
    """Opens and drops a session: ONNX Runtime prepares for the first of a process, 10 ms of a CPU in each fork."""
    import onnxruntime
    from onnxruntime import datasets

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1  # other threads would be gone in the forks
    onnxruntime.InferenceSession(
        datasets.get_example("sigmoid.onnx"), options, providers=["CPUExecutionProvider"]
    )


def spin_shortly() -> None:
    """Idle threads of sessions spin for 0.1 ms: what they spin longer is taken from the tests beside."""
    import onnxruntime

    class Options(onnxruntime.SessionOptions):
        def __init__(self) -> None:
            super().__init__()
            self.add_session_config_entry("session.intra_op.spin_duration_us", "100")

    onnxruntime.SessionOptions = Options


def main() -> None:
    """The top frame, of the process itself and of every fork."""
    descriptor, folder, *modules = [word for word in sys.argv[1:] if word.strip("-")]
    sys.path[0] = folder
    for name in (
        "onnxruntime",
        "ortune_worker.main",
        "ortune_worker.tool",
        "ortune_worker.replay",
        "ortune_worker.probes",
    ):
        importlib.import_module(name)
    if SPINS in modules:
        modules.remove(SPINS)
    else:
        spin_shortly()
    if SESSION in modules:
        open_session()
        modules.remove(SESSION)
    for name in modules:
        with contextlib.suppress(ImportError):
            importlib.import_module(name)
    gc.freeze()  # no fork walks over what was imported, which would copy its pages
    asked = serve(socket.socket(fileno=int(descriptor)))
    try:
        become(asked)
        entry = {"tool": "tool", "play": "replay"}.get("".join(sys.argv[1:]), "main")
        importlib.import_module(f"ortune_worker.{entry}").main()
    except BaseException:  # noqa: BLE001 -- as an interpreter ends with what nobody caught
        traceback.print_exc()
        os._exit(1)
    os._exit(0)


if __name__ == "__main__":
    main()
