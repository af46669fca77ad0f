"""Stopping: Ctrl-C once and twice, SIGTERM, kill -9, and two at once. Nothing measured is lost."""

from __future__ import annotations

import os
import shutil
import signal
import sqlite3
import sys

import pytest

from box import Box, Running, eventually, refused
from patience import FEW_TURNS, forked_workers

# Long enough to be stopped in the middle.
LONG = ("compare", "m.onnx", "m.onnx", "--budget", "10m", "--set", "intra=1", "--json")
SLOW = (*LONG, "--gap", "100ms")  # each worker lives for seconds


def stopped(running: Running) -> dict[str, str]:
    error = refused(running.wait(), 130, "interrupted")
    assert list((running.box.folder / "tmp").iterdir()) == []
    return error


def test_ctrl_c_before_anything_is_compared_stops_at_once(box: Box) -> None:
    running = box.start(*SLOW)
    running.until(box.workers)
    running.signal(signal.SIGINT)
    assert "before anything" in stopped(running)["what"]
    assert box.workers() == []


def test_ctrl_c_while_doctor_measures_keeps_the_inventory(box: Box) -> None:
    running = box.start("doctor", "--json")
    running.until(box.workers)
    running.signal(signal.SIGINT)
    done = running.wait()
    assert (done.code, done.document["status"], done.document["verdict"]) == (0, "interrupted", None)
    assert done.document["result"]["runtimes"]
    assert done.document["result"]["noise"] is None
    assert box.workers() == []
    assert list((box.folder / "tmp").iterdir()) == []


def test_ctrl_c_before_the_controls_are_through(box: Box) -> None:
    running = box.start(*LONG, "--inputs", box.inputs(), python=forked_workers(box.folder.parent))
    running.until(lambda: box.events("block"))
    running.signal(signal.SIGINT)
    assert "control checks" in stopped(running)["what"]
    assert "Ctrl-C again stops immediately" in running.err


def test_a_worker_that_is_killed_costs_its_block_and_ctrl_c_after_the_controls_tells_the_rest(
    box: Box,
) -> None:
    python = forked_workers(box.folder.parent, steady=True)
    running = box.start(*LONG, "--no-why", "--inputs", box.inputs(), python=python)
    running.until(lambda: box.events("block"))
    os.kill(running.until(box.workers)[0], signal.SIGKILL)
    running.until(lambda: box.racing("race"))
    running.signal(signal.SIGINT)
    done = running.wait()
    assert done.code == 0, done.err
    failed = [e for e in box.events("outcome") if e and e["outcome"]["outcome"] == "failed"]
    assert [e["outcome"]["reason"] for e in failed] == ["crash"]
    assert "SIGKILL" in failed[0]["outcome"]["what"]
    assert done.document["status"] == "interrupted"
    comparison = done.document["result"]["comparison"]
    assert comparison["n_blocks"] >= 9
    assert comparison["n_dropped"] == 1
    assert comparison["verdict"] == done.document["verdict"]
    assert box.events("result")[0]["status"] == "interrupted"


def test_ctrl_c_twice_stops_at_once(box: Box) -> None:
    # A block in which each worker lives for seconds does not end between the two.
    running = box.start(*SLOW, "--inputs", box.inputs(), python=forked_workers(box.folder.parent))
    running.until(lambda: box.events("block") and box.workers())
    running.signal(signal.SIGINT)
    running.until(lambda: "Ctrl-C again" in running.err)
    running.signal(signal.SIGINT)
    # Whichever sees it first says so: the program, or the block whose worker is gone.
    what = stopped(running)["what"]
    assert "a result" in what or "no result" in what
    assert box.workers() == []


@pytest.mark.parametrize(
    "number", [signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT], ids=lambda number: number.name
)
def test_a_signal_to_end_stops_at_once_and_keeps_the_journal(box: Box, number: signal.Signals) -> None:
    running = box.start(*SLOW)
    running.until(lambda: box.events("outcome") and box.workers())
    running.signal(number)
    assert "a result" in stopped(running)["what"]
    assert box.workers() == []
    assert len(box.events("trial")) >= len(box.events("outcome")) >= 1


def test_a_lost_terminal_is_no_reason_to_stop_under_nohup(box: Box) -> None:
    running = box.start(*SLOW, python=FEW_TURNS, prepare=lambda: signal.signal(signal.SIGHUP, signal.SIG_IGN))
    running.until(box.workers)
    running.signal(signal.SIGHUP)
    known = len(box.events("outcome"))
    running.until(lambda: len(box.events("outcome")) > known)
    running.signal(signal.SIGTERM)
    stopped(running)


def test_kill_9_takes_the_worker_along_and_keeps_the_journal(box: Box) -> None:
    running = box.start(*SLOW, python=FEW_TURNS)
    running.until(lambda: len(box.events("outcome")) >= 1 and box.workers())
    running.signal(signal.SIGKILL)
    assert running.wait().code == -signal.SIGKILL
    eventually(lambda: not box.workers())
    trials, outcomes = box.events("trial"), box.events("outcome")
    assert len(trials) >= len(outcomes) >= 1
    assert outcomes[0]["trial"] == trials[0]["trial"]
    path = next(box.folder.glob("home/**/ortune.sqlite"))
    with sqlite3.connect(path) as db:
        assert db.execute("PRAGMA integrity_check").fetchone() == ("ok",)
        with pytest.raises(sqlite3.IntegrityError, match="append-only"):
            db.execute("DELETE FROM event")
    # The lock went with its holder; only the temporary folder stays behind.
    for left in (box.folder / "tmp").iterdir():
        shutil.rmtree(left)
    assert box.here("bench", "m.onnx", "--no-wait", "--budget", "2s").code == 0


def test_two_at_once(box: Box) -> None:
    first = box.start(*SLOW)
    first.until(lambda: box.lock.exists() and box.lock.read_text())
    holder = f"ortune compare m.onnx (pid {first.process.pid})"
    refusal = refused(box.start(*LONG, "--no-wait").wait(), 2, "busy")
    assert refusal["what"].startswith(holder)
    assert "--no-wait" in refusal["do"]

    impatient, patient = box.start(*SLOW), box.start(*SLOW)
    for waiting in (impatient, patient):
        waiting.until(lambda waiting=waiting: f"waiting: {holder}" in waiting.err)
    impatient.signal(signal.SIGINT)
    refused(impatient.wait(), 130, "interrupted")

    first.signal(signal.SIGTERM)
    first.wait()
    patient.until(lambda: "inputs: x" in patient.err)
    patient.signal(signal.SIGTERM)
    stopped(patient)


def test_a_stop_while_a_model_is_rewritten_is_no_fault_of_the_rewrite(box: Box) -> None:
    """What fails there is left out, and the rest goes on."""
    python = box.folder / "slow-python"
    python.write_text(
        f'#!/bin/sh\n[ "$2" = tool ] && touch "{box.folder}/rewriting" && exec sleep 600\n'
        f'exec "{sys.executable}" "$@"\n'
    )
    python.chmod(0o755)
    running = box.start(
        "tune", "m.onnx", "--json", "--no-bundle", "--budget", "10m", "--objective", "cold-start",
        "--inputs", box.inputs(), "--python", str(python),
    )  # fmt: skip
    running.until((box.folder / "rewriting").exists)
    running.signal(signal.SIGINT)
    assert "before anything" in stopped(running)["what"]
    assert not box.events("no-model")
    assert box.workers() == []
