"""A plan that crashes ONNX Runtime, hangs, eats memory or gives wrong outputs: in the report, and the rest goes on.

The faults are real. A library that passes for an allocator is preloaded by the plans that ask for it, and takes
the place of a function of the C library that ONNX Runtime's Tan calls.
"""

from __future__ import annotations

import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import helper, numpy_helper

from box import FEW, Box, Running, eventually
from onnx_text import assemble
from patience import FEW_TURNS, few_turns, forked_workers, held, with_budgets
from simulated_machine import Lab, measuring_on

# Two measurements at once are each other's noise: those that wait for a verdict run one after another.
pytestmark = pytest.mark.xdist_group("measuring")

FAULTS = {
    "crash": "abort(); return x;",
    "hang": "for (;;) pause();",
    "memory": "for (;;) memset(malloc(1 << 24), 1, 1 << 24);",
    "wrong": "return 2 * x;",
}
CHANNELS, SIZE, LAYERS = 16, 12, 3


def broken_library(path: Path, fault: str) -> None:
    """A shared library whose tanf does what it should not."""
    code = f"#include <stdlib.h>\n#include <string.h>\n#include <unistd.h>\nfloat tanf(float x) {{ {FAULTS[fault]} }}\n"
    subprocess.run(
        ["cc", "-shared", "-fPIC", "-O1", "-fno-builtin", "-w", "-x", "c", "-", "-o", str(path)],
        input=code, text=True, check=True,
    )  # fmt: skip


def tan_model(path: Path) -> None:
    """Convolutions, which take twice as long where ONNX Runtime may not optimise, and Tan of what they give."""
    rng = np.random.default_rng(0)
    shape = (CHANNELS, CHANNELS, 3, 3)
    weights = [
        numpy_helper.from_array(rng.standard_normal(shape, dtype=np.float32) * 0.15, f"w{i}")
        for i in range(LAYERS)
    ]
    nodes = []
    for i in range(LAYERS):
        nodes.append(helper.make_node("Conv", [f"x{i}", f"w{i}"], [f"c{i}"], pads=[1] * 4))
        nodes.append(helper.make_node("Relu", [f"c{i}"], [f"x{i + 1}"]))
    nodes += [
        helper.make_node("GlobalAveragePool", [f"x{LAYERS}"], ["mean"]),
        helper.make_node("Tan", ["mean"], ["t"]),
        helper.make_node("Softmax", ["t"], ["y"], axis=1),
    ]
    onnx.save(
        assemble(
            nodes,
            f"float[1,{CHANNELS},{SIZE},{SIZE}] x0",
            f"float[1,{CHANNELS},1,1] y",
            weights,
            opset=13,
            name="tan",
        ),
        path,
    )


def with_faults(box: Box, faults: dict[str, str]) -> dict[str, str]:
    """Makes the model and the libraries that pass for allocators; the environment that finds them."""
    if shutil.which("cc") is None:
        pytest.skip("needs a C compiler")
    libraries = box.folder / "lib"
    libraries.mkdir(exist_ok=True)
    for allocator, fault in faults.items():
        stem = {"tcmalloc": "libtcmalloc_minimal"}.get(allocator, f"lib{allocator}")
        broken_library(libraries / f"{stem}.so.2", fault)
    tan_model(box.folder / "tan.onnx")
    return {"LD_LIBRARY_PATH": str(libraries)}


def tuned(box: Box, budget: str, faults: dict[str, str], *words: str) -> tuple[dict[str, Any], str]:
    """The result of a tuning with such libraries about, and its report as text."""
    env = with_faults(box, faults)
    with few_turns():
        done = box.here("tune", "tan.onnx", "--json", "--budget", budget, "--force", *words, env=env)
    assert done.code == 0, done.err
    result = done.document["result"]
    held(result["bundle"], result["headline"])
    return result, (Path(box.folder / result["bundle"]) / "report.html").read_text()


def fates(result: dict[str, Any]) -> dict[str, tuple[str, str]]:
    """Fate and reason of the plans that change the allocator alone, by allocator."""
    return {
        c["plan"]["settings"]["allocator"]: (c["status"], c["why"])
        for c in result["candidates"]
        if set(c["plan"]["settings"]) == {"allocator"}
    }


def others(result: dict[str, Any]) -> list[dict[str, Any]]:
    """Plans that leave the allocator as it is, and ran in a block."""
    return [c for c in result["candidates"] if "allocator" not in c["plan"]["settings"] and c["n_blocks"]]


def waited(why: str) -> float:
    """Seconds, printed whole, after which a trial that hung was cut off."""
    return float(re.search(r"timed out after (\d+) s", why).group(1))


@pytest.mark.long  # a crash and a lie stand below, and what eats memory in test_faults_worker
def test_plans_that_crash_eat_memory_and_lie(box: Box) -> None:
    faults = {"mimalloc": "crash", "jemalloc": "memory", "tcmalloc": "wrong"}

    def tried(budget: str) -> tuple[dict[str, Any], str]:
        result, page = tuned(box, budget, faults, "--memory", "700m")
        held("not-tried" not in {fate for fate, _ in fates(result).values()} and len(others(result)) >= 3)
        return result, page

    result, page = with_budgets(tried, 60, 120)
    found = fates(result)
    assert found["mimalloc"][0] == "failed", found
    assert "SIGABRT" in found["mimalloc"][1]
    assert found["jemalloc"][0] == "failed"
    assert "out-of-memory" in found["jemalloc"][1]
    assert found["tcmalloc"][0] == "wrong-output"
    assert "allocator" not in result["winner"]["settings"]
    for text in ("SIGABRT", "out-of-memory", "wrong output"):
        assert text in page


@pytest.mark.long  # one hang stands below
def test_hangs_take_no_more_than_the_budget_holds(box: Box) -> None:
    faults = {"mimalloc": "hang", "jemalloc": "hang", "tcmalloc": "hang"}

    def tried(budget: str) -> tuple[dict[str, Any], str, float]:
        result, page = tuned(box, budget, faults)
        held(others(result) and "failed" in {fate for fate, _ in fates(result).values()})
        return result, page, float(budget[:-1])

    result, page, left = with_budgets(tried, 30, 60)
    found = fates(result)
    # On a slow machine the budget may end before the last of them.
    assert {fate for fate, _ in found.values()} <= {"failed", "not-tried"}, found
    hung = [waited(why) for fate, why in found.values() if fate == "failed"]
    assert "timeout" in page
    # Each takes at most a quarter of what those before it have left, where thirty trials would be ten seconds or more
    # every time.
    for seconds in sorted(hung, reverse=True):
        assert 2 <= seconds <= left / 4 + 0.5, hung
        left -= seconds


@pytest.mark.long  # that it is cut off, and once, stands in trials/test_rewriting_limit
def test_a_rewrite_that_hangs_is_cut_off_and_not_tried(tmp_path: Path) -> None:
    def tried(budget: str) -> list[dict[str, Any]]:
        (tmp_path / budget).mkdir()
        box = Box(tmp_path / budget)
        python = box.folder / "slow-python"
        python.write_text(f'#!/bin/sh\n[ "$2" = tool ] && exec sleep 600\nexec "{sys.executable}" "$@"\n')
        python.chmod(0o755)
        running = box.start(
            "tune", "m.onnx", "--json", "--no-bundle", "--budget", budget, "--objective", "cold-start",
            "--inputs", box.inputs(), "--python", str(python),
        )  # fmt: skip
        # After two blocks of the race all is known that is asked here: it need not go on to the end of its budget.
        until(running, lambda: box.racing("race", "confirm") and raced(box) >= 2)
        running.signal(signal.SIGINT)
        done = running.wait()
        assert done.code == 0, done.err
        candidates = done.document["result"]["candidates"]
        rewritten = [c for c in candidates if c["plan"]["rewrites"]]
        assert {c["status"] for c in rewritten} == {"not-tried"}
        # On a slow machine the budget may not hold all of them.
        found = [c for c in rewritten if c["why"] != "not tested: the budget ran out"]
        held(found and any(c["n_blocks"] for c in candidates), candidates)
        return found

    for each in with_budgets(tried, 40, 100):
        assert "timed out after" in each["why"], each


def raced(box: Box) -> int:
    """Blocks with plans in them so far."""
    return sum(block["phase"] in ("race", "confirm") for block in box.events("block"))


def gone(folder: Path) -> bool:
    """Removes what a killed tuning left; what was about to compile a worker for it may still write there."""
    shutil.rmtree(folder, ignore_errors=True)
    return not folder.exists()


def killed(running: Running) -> int:
    """Ends a tuning with kill -9; how many of its trials need not be measured again: those of whole blocks."""
    running.signal(signal.SIGKILL)
    running.wait()
    eventually(lambda: not running.box.workers())
    for left in (running.box.folder / "tmp").iterdir():
        eventually(partial(gone, left))
    whole = cut = 0
    for kind, _ in running.box.journal():
        if kind == "outcome":
            cut += 1
        elif kind in ("block", "outputs-seen"):  # the trial that checks the outputs stands in no block
            whole, cut = whole + cut, 0
        elif kind == "resumed":
            cut = 0
    return whole


def test_plans_that_crash_hang_and_lie_are_told_and_the_rest_goes_on(box: Box) -> None:
    env = with_faults(box, {"mimalloc": "crash", "jemalloc": "hang", "tcmalloc": "wrong"})
    words = ("tune", "tan.onnx", "--json", "--budget", "34s", "--current", "level=disable")
    # Only what they take is simulated: faults are real, and one that hangs is waited for.
    with measuring_on(Lab(1, allocators=True)):
        done = box.here(*words, env=env)
    assert (done.code, done.document["status"]) == (0, "ok"), done.err
    result = done.document["result"]
    found = fates(result)
    assert {name: fate for name, (fate, _) in found.items()} == {
        "mimalloc": "failed", "jemalloc": "failed", "tcmalloc": "wrong-output"
    }, found  # fmt: skip
    assert others(result)
    assert "SIGABRT" in found["mimalloc"][1]
    assert 2 <= waited(found["jemalloc"][1]) <= 34 / 4 + 0.5
    assert "allocator" not in result["winner"]["settings"]
    page = (box.folder / result["bundle"] / "report.html").read_text()
    for text in ("SIGABRT", "timeout", "wrong output"):
        assert text in page


def test_a_comparison_that_is_killed_goes_on_and_measures_nothing_twice(box: Box) -> None:
    words = ("compare", "m.onnx", *FEW, "--no-why", "--b-set", "spin=0", "--inputs", box.inputs())
    python = forked_workers(box.folder.parent)
    running = box.start(*words, python=python)
    running.until(lambda: box.events("block"))
    whole = killed(running)
    done = box.run(*words, "--resume", python=python)
    assert done.code in (0, 3), done.err  # a machine too unquiet for any verdict is another test's subject
    # Only trials of a block that was cut are measured anew; the journal says so even where controls failed.
    assert whole and [event["trials"] for event in box.events("resumed")] == [whole]


@pytest.mark.long  # a comparison stands above, and verbs of all kinds in tests/simulation
def test_a_look_at_the_noise_that_is_killed_goes_on_and_measures_nothing_twice(box: Box) -> None:
    words = ("doctor", "m.onnx", "--json")
    running = box.start(*words, python=FEW_TURNS)
    running.until(lambda: box.events("block"))
    whole = killed(running)
    resumed = box.start(*words, "--resume", python=FEW_TURNS)
    resumed.until(lambda: len(box.events("block")) >= 12)
    resumed.signal(signal.SIGINT)  # the peaks of the machine are another matter
    done = resumed.wait()
    assert done.code in (0, 3), done.err
    assert whole and [event["trials"] for event in box.events("resumed")] == [whole]


def until(running: Running, condition: Callable[[], Any]) -> None:
    """Waits for it; where the tuning ends before, its budget was too short."""
    running.until(lambda: condition() or running.process.poll() is not None)
    held(condition(), running.err)
