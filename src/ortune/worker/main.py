"""Process of one trial: reads the request, loads the model, runs batches when commanded, reports, and exits.

It runs under any interpreter from Python 3.8 with numpy and onnxruntime, and imports nothing else.
"""

from __future__ import annotations

import os
import sys
import time
from typing import Any, Dict, List, Optional

from . import cases, channels, failures, nvidia, protocol, timing, transfers
from .held import resident_bytes
from .protocol import Link, Stop
from .trial import Trial, follow

PLACEMENT = "get_provider_graph_assignment_info"
"""Method that returns the provider of each node, from ONNX Runtime 1.24 on."""


def main() -> None:
    """Run one trial and exit."""
    link = Link()
    failures.conclude(link, lambda: _trial(link))


def _trial(link: Link) -> None:
    """Load the model, then run the requested turns, asleep between them."""
    protocol.die_with_parent()
    request = link.read_request()
    ort = begin(link, request["applied"], request["providers"])
    follow(PlanSession(ort, request, link), link)


def begin(link: Link, applied: List[Dict[str, Any]], providers: Optional[List[Dict[str, Any]]] = None) -> Any:
    """Apply the settings of a process, import onnxruntime, and send that the process is ready; return the module.

    With ``providers``, settings and options of providers that this build does not know raise Stop.
    """
    channels.apply_process(applied)
    link.phase = "importing"
    ort = import_onnxruntime()
    if providers is not None:
        from . import probes  # imports numpy, which must not fail before it can be said

        probes.check_known_keys(ort, applied)
        probes.check_known_options(ort, applied, providers)
    link.phase = "loading"
    link.send("ready", version=protocol.VERSION, pid=os.getpid(), python=sys.version.split()[0],
              ort_version=ort.__version__)  # fmt: skip
    return ort


class PlanSession(Trial):
    """The session of a plan, and its measurements so far."""

    def __init__(self, ort: Any, request: Dict[str, Any], link: Link) -> None:
        super().__init__(request, link)
        self.ort = ort
        self.settings: Any = None
        self.placement: List[Dict[str, Any]] = []
        self.sessions: List[Any] = []
        self.added: Optional[int] = None  # threads added per session
        self.gpu: Any = None  # ``GpuTrace``, if the profile should contain kernels
        self.arguments: Dict[str, Any] = {}

    def load(self) -> None:
        """Create the sessions of the plan, with their settings, providers and custom operators."""
        from . import probes

        ort, request = self.ort, self.request
        if request["device_memory"] == "cuda":
            nvidia.load_nvidia_libraries(ort)
        ort.set_seed(request["seed"])
        settings = self.settings = channels.apply(ort, request["applied"])
        for library in request["custom_ops"]:
            settings.session.register_custom_ops_library(library)
        if request["profile_path"]:
            settings.session.enable_profiling = True
            settings.session.profile_file_prefix = request["profile_path"]
        if request["providers"] and hasattr(ort.InferenceSession, PLACEMENT):
            settings.session.add_session_config_entry("session.record_ep_graph_assignment_info", "1")
        files, began_ns = probes.files(request["applied"]), time.time_ns()
        self.base_bytes = resident_bytes("VmRSS")
        threads_before = probes.thread_count()
        self.arguments = channels.session_arguments(ort, settings, request["providers"])
        if request["gpu_tracer"]:
            from . import gpu_trace

            self.gpu = gpu_trace.GpuTrace()
            self.gpu.start()
        start = timing.CLOCK()
        self.create()
        self.load_ns = timing.CLOCK() - start
        threads_after = probes.thread_count()
        if threads_before is not None and threads_after is not None:
            # Every session has its own pool.
            self.added = (threads_after - threads_before) // len(self.sessions)
        _require_providers(self.sessions[0], request["providers"], ort.get_available_providers())
        self.placement = _placement(self.sessions[0], request["providers"], request["name_nodes"])
        if files is not None:
            settings.files = files, began_ns, probes.files(request["applied"]) or {}

    def create(self) -> None:
        """Create the sessions of the process, each with the same options."""
        model, options = self.request["model"], self.settings.session
        self.sessions = [
            self.ort.InferenceSession(model, options, **self.arguments)
            for _ in range(self.request["sessions"])
        ]

    def make_callers(self) -> List[List[cases.TimedCase]]:
        """Return the cases of each caller of each session."""
        from . import values

        return [
            cases.caller(self.ort, session, self.settings, self.request, values)
            for session in self.sessions
            for _ in range(self.request["callers"])
        ]

    def report(self) -> Dict[str, Any]:
        """Return the fields of the ``done`` message."""
        from . import probes

        session = self.sessions[0]
        return {
            **super().report(),
            "threads": self.added,
            "read_back": probes.read_back(
                self.request["applied"], self.settings, session, self.added, self.idle
            ),
            "providers": session.get_providers(), "placement": self.placement,
            "devices": self.settings.devices, "ort_version": self.ort.__version__,
            "wrote": bool(set(self.settings.files[2]) - set(self.settings.files[0])) if self.settings.files else None,
            "gpu_run": transfers.times_of_run(self.callers[0][0]) if self.request["transfers"] else None,
            "profile": self._profile(session), "untraced": self.gpu.problem if self.gpu is not None else "",
        }  # fmt: skip

    def releases(self) -> bool:
        """Return whether sessions can be deleted safely; drivers and custom libraries may crash."""
        return not self.request["providers"] and not self.request["custom_ops"]

    def release(self) -> None:
        """Delete the sessions and their options."""
        self.sessions, self.settings = [], None

    def _profile(self, session: Any) -> str:
        """Return the path of the profile, after adding the GPU's activity if it was traced; "" without a profile."""
        if not self.request["profile_path"]:
            return ""
        path: str = session.end_profiling()
        if self.gpu is not None:
            self.gpu.write_into(path, session.get_profiling_start_time_ns())
        return path


def import_onnxruntime() -> Any:
    """Return the interpreter's onnxruntime; raise Stop if it has none."""
    try:
        import onnxruntime
    except ImportError as error:
        raise Stop("no-runtime", "%s cannot import onnxruntime: %s" % (sys.executable, error)) from error
    return onnxruntime


def _require_providers(session: Any, requested: List[Dict[str, Any]], available: List[str]) -> None:
    """Raise Stop if a requested provider is missing, since ONNX Runtime silently falls back to the CPU."""
    missing = [p["name"] for p in requested if p["name"] not in session.get_providers()]
    if missing:
        what = "%s fell back to %s" % (missing[0], ", ".join(session.get_providers()))
        if missing[0] in available:
            what += ": this build has it, and it did not start"
        raise Stop("not-applied", what, missing[0])


def _placement(session: Any, requested: List[Dict[str, Any]], by_name: bool) -> List[Dict[str, Any]]:
    """Return the nodes assigned to each provider, or [] if this version does not report them.

    Raise Stop if the first requested provider received none.
    """
    if not requested or not hasattr(session, PLACEMENT):
        return []
    placement: Dict[str, Dict[str, Any]] = {}
    for part in getattr(session, PLACEMENT)():
        mine = placement.setdefault(
            part.ep_name, {"provider": part.ep_name, "n_nodes": 0, "n_parts": 0, "operators": {}, "nodes": []}
        )
        mine["n_parts"] += 1
        for node in part.get_nodes():
            mine["n_nodes"] += 1
            mine["operators"][node.op_type] = mine["operators"].get(node.op_type, 0) + 1
            if by_name:
                mine["nodes"].append(node.name)
    first = requested[0]["name"]
    if placement and first not in placement:
        what = "%s took none of the nodes: all run on %s" % (first, ", ".join(sorted(placement)))
        raise Stop("not-applied", what, first)
    return list(placement.values())
