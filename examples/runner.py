#!/usr/bin/env python3
"""A complete runner for ortune in one file, to be translated: it uses only what ONNX Runtime has in every language.

docs/add-a-runner.md explains the messages. Test a runner of your own as this one is tested:
    ORTUNE_TEST_RUNNERS="./my-runner" pytest tests/targets/test_runner_messages.py
"""

import json
import os
import re
import statistics
import sys
import time
from pathlib import Path

import numpy as np
import onnxruntime as ort

VERSION = 2
clock, messages = time.monotonic_ns, os.fdopen(os.dup(1), "w")
os.dup2(2, 1)  # stdout is for messages; what libraries print goes to stderr


class Stop(Exception):
    """The end of a trial, with the reason, what happened, and the setting."""


def say(message, **fields):
    """Write one message."""
    print(json.dumps({"message": message, **fields}), file=messages, flush=True)


def hear():
    """Read one message; end with ortune."""
    line = sys.stdin.readline()
    return json.loads(line) if line else os._exit(3)  # ortune has ended


def memory(field):
    """Return a figure of the process's memory in bytes; None where the system does not show it."""
    status = Path("/proc/self/status")  # Linux alone has it
    found = re.search(rf"{field}:\s+(\d+)", status.read_text()) if status.exists() else None
    return int(found[1]) * 1024 if found else None


def options_of(request):
    """Return ONNX Runtime's options for the settings of a request."""
    options = ort.SessionOptions()
    if request["sessions"] > 1 or request["callers"] > 1 or request["arrivals"] or request["custom_ops"]:
        raise Stop("unsupported", "several callers, calls at given times, or libraries of operators", "")
    for setting in request["applied"]:
        knob, key, value = setting["knob"], setting["key"], setting["value"]
        if setting["channel"] == "session_option":
            kind = {
                "graph_optimization_level": ort.GraphOptimizationLevel,
                "execution_mode": ort.ExecutionMode,
            }
            setattr(options, key, getattr(kind[key], value) if key in kind else value)
        elif (
            setting["channel"] == "session_config"
        ):  # ONNX Runtime accepts any key, so the library is searched
            libraries = [file for file in Path(ort.__file__).parent.glob("capi/*") if file.is_file()]
            if not any(key.encode() in file.read_bytes() for file in libraries):
                raise Stop("unknown-key", f"ONNX Runtime {ort.__version__} does not know {key}", knob)
            options.add_session_config_entry(key, str(value))
        elif setting["channel"] not in ("env", "preload"):  # ortune sets these before the start
            raise Stop("unsupported", f"settings of the channel {setting['channel']}", knob)
    if request["profile_path"]:
        options.enable_profiling, options.profile_file_prefix = True, request["profile_path"]
    return options


def read_feeds(folder):
    """Return the inputs of a case by name."""
    entries = json.loads(Path(folder, "feeds.json").read_text())["feeds"]
    if any(entry["kind"] != "tensor" for entry in entries):
        raise Stop("unsupported", "inputs that are no tensors", "")
    return {entry["name"]: np.load(Path(folder, entry["files"][0])) for entry in entries}


def write_outputs(folder, outputs, values):
    """Write the outputs of a case in the form of the inputs."""
    folder.mkdir(parents=True)
    kinds = [output.type.removeprefix("tensor(").removesuffix(")") for output in outputs]
    for number, (kind, value) in enumerate(zip(kinds, values, strict=True)):
        np.save(folder / f"{number}.npy", value.astype(str) if kind == "string" else value)
    index = [
        {"name": output.name, "kind": "tensor", "onnx_type": kind, "files": [f"{number}.npy"]}
        for number, (output, kind) in enumerate(zip(outputs, kinds, strict=True))
    ]
    (folder / "outputs.json").write_text(json.dumps({"version": 1, "outputs": index}))


def timed(case, runs, request):
    """Return the latency of each run, and the busy wait within it: the known slowdown of the controls."""
    times = []
    for _ in range(runs):
        start = clock()
        case["run"]()
        end = ran = clock()
        while end < ran + (ran - start) * request["wait_ratio"]:
            end = clock()
        times.append((end - start, end - ran))
        time.sleep(request["gap_ns"] / 1e9)
    return times


def warmed_up(session, feed, request):
    """Run a case once, write its outputs, and run it until its times agree."""
    feeds, began = read_feeds(feed["path"]), clock()
    values = session.run(None, feeds)
    case = {
        "name": feed["name"],
        "weight": feed["weight"],
        "first_ns": clock() - began,
        "times": [],
        "turn_runs": [],
    }
    case |= {"run": lambda: session.run(None, feeds), "output_shapes": [value.shape for value in values]}
    if request["outputs_path"]:
        write_outputs(Path(request["outputs_path"], feed["name"]), session.get_outputs(), values)
    case["warmup_runs"], windows = len(timed(case, request["warmup_runs"], request)), [0, 1]
    while request["warmup_runs"] and clock() < began + max(request["warmup_ns"], request["warmup_cap_ns"]):
        windows.append(statistics.median(latency for latency, _ in timed(case, 5, request)))
        case["warmup_runs"] += 5
        if clock() > began + request["warmup_ns"] and abs(windows[-1] - windows[-2]) < 0.02 * windows[-1]:
            break
    return case


def reported(case):
    """Return the times of a case for the report."""
    names = ("weight", "first_ns", "turn_runs", "warmup_runs", "output_shapes")
    latencies, waits = zip(*case["times"], strict=True) if case["times"] else ((), ())
    times = {"latency_ns": latencies, "waits_ns": waits if any(waits) else ()}
    return {"case": case["name"], **times, **{name: case[name] for name in names}}


def trial():
    """Do what ortune says, turn by turn."""
    request = hear()
    if request["version"] != VERSION:
        raise Stop("protocol", f"ortune speaks version {request['version']}, this runner {VERSION}", "")
    options, base = options_of(request), memory("VmRSS")
    say("ready", version=VERSION, pid=os.getpid(), ort_version=ort.__version__)
    began = clock()
    try:
        session = ort.InferenceSession(request["model"], options, providers=["CPUExecutionProvider"])
    except Exception as error:
        raise Stop("load-error", str(error), "") from error
    load_ns, cases, cpu_ns, wall_ns, waiting_ns = clock() - began, [], 0, 0, 0
    say("loaded", load_ns=load_ns)
    while True:
        began = clock()
        command = hear()
        waiting_ns += clock() - began
        if command["do"] == "finish":
            break
        if command["do"] == "warm":
            cases = [warmed_up(session, feed, request) for feed in request["feeds"]]
        elif command["do"] == "run":
            for case in cases:
                timed(case, command["unmeasured"], request)
            share, cpu_began, began = sum(case["weight"] for case in cases), time.process_time_ns(), clock()
            for case in cases:
                times = timed(case, round(command["runs"] * case["weight"] * len(cases) / share), request)
                case["times"] += times
                case["turn_runs"].append(len(times))
            cpu_ns, wall_ns = cpu_ns + time.process_time_ns() - cpu_began, wall_ns + clock() - began
        else:
            raise Stop("protocol", f"unknown command {command['do']}", "")
        say("turn-over")
    report = {
        "profile": session.end_profiling() if request["profile_path"] else "",
        "peak_bytes": memory("VmHWM"),
    }
    idle_bytes = memory("VmRSS")
    del session
    for case in cases:
        del case["run"]
    if idle_bytes:
        report["kept"] = {"idle_bytes": idle_bytes, "released_bytes": memory("VmRSS")}
    report |= {
        "load_ns": load_ns,
        "cpu_ns": cpu_ns,
        "wall_ns": wall_ns,
        "waiting_ns": waiting_ns,
        "base_bytes": base,
    }
    report["read_back"] = [{"knob": one["knob"], "level": "none", "ok": True} for one in request["applied"]]
    report |= {"ort_version": ort.__version__, "providers": ["CPUExecutionProvider"]}
    say(
        "done",
        **report,
        cases=[reported(case) for case in cases],
        n_runs=sum(len(case["times"]) for case in cases),
    )


try:
    trial()
except Stop as stop:
    say("error", **dict(zip(("reason", "what", "knob"), stop.args, strict=True)), phase="loading")
except Exception as error:  # noqa: BLE001  (whatever it is, ortune reports it)
    reason = "input-error" if re.search("INVALID_ARGUMENT|Required inputs", str(error)) else "run-error"
    say("error", reason=reason, what=str(error), phase="running")
