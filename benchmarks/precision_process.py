"""One model in a process of its own, which benchmarks/precision.py starts: it runs when it is its turn.

    PYTHON precision_process.py '{"model": "m.onnx", "provider": "CPUExecutionProvider", "feeds": ["0.npz"]}'

Each line of the input is a command: ``outputs FILE.npz`` runs every input once, ``turn SECONDS SETTLE`` prints the
median seconds of a run of the first one. With ``bundle`` in place of ``model``, the bundle's own ``load.py`` creates
the session. It needs numpy and onnxruntime alone.
"""

from __future__ import annotations

import json
import statistics
import sys
import time
from typing import Any

import numpy as np


def session_of(about: dict[str, Any]) -> Any:
    """The session, as a program of the user's creates it."""
    if "bundle" in about:
        sys.path.insert(0, about["bundle"])
        import load

        return load.load()
    import onnxruntime

    return onnxruntime.InferenceSession(about["model"], providers=[about["provider"]])


def turn(session: Any, feeds: dict[str, Any], seconds: float, settle: float) -> float:
    """Median seconds of a run; threads of the process before this one have gone to sleep by then."""
    settled, times = time.perf_counter() + settle, list[float]()
    session.run(None, feeds)
    while time.perf_counter() < settled:
        session.run(None, feeds)
    end = time.perf_counter() + seconds
    while time.perf_counter() < end or len(times) < 3:
        began = time.perf_counter()
        session.run(None, feeds)
        times.append(time.perf_counter() - began)
    return statistics.median(times)


def main() -> None:
    """Answers each command with one line."""
    about = json.loads(sys.argv[1])
    feeds = [dict(np.load(path)) for path in about["feeds"]]
    session = session_of(about)
    print("ready", flush=True)
    for line in sys.stdin:
        command, *words = line.split(" ", 1)
        if command.strip() == "turn":
            seconds, settle = map(float, words[0].split())
            print(turn(session, feeds[0], seconds, settle), flush=True)
        else:
            arrays = {
                f"{number}.{place}": value
                for number, each in enumerate(feeds)
                for place, value in enumerate(session.run(None, each))
            }
            np.savez(words[0].strip(), **arrays)
            print("written", flush=True)


if __name__ == "__main__":
    main()
