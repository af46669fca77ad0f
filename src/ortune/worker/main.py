"""One trial: read the request, create the session, run, report, exit.

Runs under any interpreter from Python 3.8 with numpy and onnxruntime, and imports nothing else.
"""

from __future__ import annotations

import gc
import os
import sys
import time
from typing import Any, Dict, List, Optional

from . import cases, channels, protocol, timing, together
from .protocol import Link, Stop


def main() -> None:
    """The worker's top frame: whatever goes wrong becomes one message."""
    link = Link()
    try:
        protocol.die_with_parent()
        _trial(link, link.read_request())
    except Stop as stop:
        link.send("error", reason=stop.reason, what=stop.what, phase=link.phase, knob=stop.knob)
    except MemoryError as error:
        link.send("error", reason="out-of-memory", what=str(error) or "MemoryError", phase=link.phase)
    except BrokenPipeError:
        pass  # nobody is left to tell
    except OSError as error:
        reason = "disk-full" if _disk_full(error) else "run-error"
        link.send("error", reason=reason, what="%s: %s" % (type(error).__name__, error), phase=link.phase)
    except Exception as error:  # the one broad except: a trial's failure is data
        link.send("error", reason=_reason(error, link.phase), what=_first_lines(error), phase=link.phase)
    # Destructors of a session can take seconds and prove nothing; every result is out.
    sys.stdout.flush()
    os._exit(0)


def _trial(link: Link, request: Dict[str, Any]) -> None:
    applied = request["applied"]
    channels.apply_process(applied)
    link.phase = "importing"
    ort = _import_onnxruntime()
    from . import probes, values  # they import numpy, which must not fail before it can be said

    probes.check_known_keys(ort, applied)
    ort.set_seed(request["seed"])
    settings = channels.apply(ort, applied)
    for library in request["custom_ops"]:
        settings.session.register_custom_ops_library(library)
    if request["profile_path"]:
        settings.session.enable_profiling = True
        settings.session.profile_file_prefix = request["profile_path"]

    link.phase = "loading"
    link.send("loading", version=protocol.VERSION, pid=os.getpid(), python=sys.version.split()[0],
              ort_version=ort.__version__)  # fmt: skip
    base_bytes = _resident_bytes("VmRSS")
    threads_before = probes.thread_count()
    providers = channels.providers(request["providers"], settings.provider_options)
    start = timing.CLOCK()
    sessions = [
        ort.InferenceSession(request["model"], settings.session, providers=providers)
        for _ in range(request["sessions"])
    ]
    load_ns = timing.CLOCK() - start
    session = sessions[0]
    threads_after = probes.thread_count()
    added = None
    if threads_before is not None and threads_after is not None:
        added = (threads_after - threads_before) // len(sessions)
    _require_providers(session, request["providers"])
    link.send("loaded", load_ns=load_ns)

    link.phase = "running"
    callers = [
        cases.caller(ort, each, settings, request["feeds"], values)
        for each in sessions
        for _ in range(request["callers"])
    ]
    for number, caller in enumerate(callers):
        for case in caller:
            case.first(request["outputs_path"] if number == 0 else "", values)
    link.phase = "warming"
    if request["runs"]:
        for caller in callers:
            for case in caller:
                case.warm_up(request)
    link.phase = "timing"
    gc.collect()
    gc.disable()
    switches = _involuntary_switches()
    cpu, wall = together.run(callers, request)
    switches = None if switches is None else _involuntary_switches() - switches
    peak_bytes = _resident_bytes("VmHWM")
    idle = _idle_cpu_ratio() if request["runs"] else None

    link.phase = "reporting"
    link.send(
        "done", load_ns=load_ns, cases=cases.reports(callers), cpu_ns=cpu, wall_ns=wall,
        n_runs=sum(len(c.latencies) for caller in callers for c in caller), n_callers=len(callers),
        idle_cpu_ratio=idle, peak_bytes=peak_bytes, base_bytes=base_bytes, threads=added,
        read_back=probes.read_back(applied, settings, session, added, idle),
        providers=session.get_providers(), ort_version=ort.__version__, involuntary_switches=switches,
        profile=session.end_profiling() if request["profile_path"] else "",
    )  # fmt: skip


def _import_onnxruntime() -> Any:
    try:
        import onnxruntime
    except ImportError as error:
        raise Stop("no-runtime", "%s cannot import onnxruntime: %s" % (sys.executable, error)) from error
    return onnxruntime


def _require_providers(session: Any, requested: List[Dict[str, Any]]) -> None:
    """ONNX Runtime falls back to the CPU without failing; a plan that asks for a provider must get it."""
    missing = [p["name"] for p in requested if p["name"] not in session.get_providers()]
    if missing:
        raise Stop(
            "not-applied", "%s fell back to %s" % (missing[0], ", ".join(session.get_providers())), missing[0]
        )


def _idle_cpu_ratio() -> float:
    """CPU time over wall time while nothing is asked of the session: threads that spin show here."""
    cpu, wall = time.process_time_ns(), timing.CLOCK()
    time.sleep(0.02)
    return (time.process_time_ns() - cpu) / (timing.CLOCK() - wall)


def _resident_bytes(field: str) -> Optional[int]:
    """VmRSS or VmHWM of this process; not ru_maxrss, which Linux inherits from the parent on fork."""
    try:
        with open("/proc/self/status", encoding="ascii", errors="replace") as f:
            for line in f:
                if line.startswith(field):
                    return int(line.split()[1]) * 1024
    except OSError:
        pass
    return None


def _involuntary_switches() -> Any:
    try:
        import resource
    except ImportError:
        return None
    return resource.getrusage(resource.RUSAGE_SELF).ru_nivcsw


def _disk_full(error: OSError) -> bool:
    """No space, over the quota, or over the file size limit; numpy says so without an error number."""
    return error.errno in (28, 122, 27) or "written" in str(error) or "free space" in str(error)


def _reason(error: Exception, phase: str) -> str:
    text = str(error).lower()
    name = type(error).__name__
    if "failed to allocate" in text or "bad allocation" in text or "out of memory" in text:
        return "out-of-memory"
    if "no space left" in text:
        return "disk-full"
    if name == "InvalidArgument" and phase in ("running", "warming", "timing"):
        return "input-error"
    if name == "NotImplemented":
        return "unsupported"
    return "load-error" if phase in ("importing", "loading") else "run-error"


def _first_lines(error: Exception) -> str:
    return ("%s: %s" % (type(error).__name__, error))[:2000]
