"""One caller's calls: each input shape with its feeds, timed alone or beside other callers."""

from __future__ import annotations

import os
from typing import Any, Callable, Dict, List, Optional

from . import channels, timing


class Bound:
    """One caller's calls through one binding, as ``run`` of a bundle's load.py makes them.

    Each call binds the arrays that it is given. Outputs keep their memory only where no shape can change: ONNX
    Runtime refuses a result that does not fit what is bound.
    """

    def __init__(self, session: Any, run_options: Any) -> None:
        self.session, self.run_options = session, run_options
        values = session.get_inputs() + session.get_outputs()
        self.fixed = all(
            v.type.startswith("tensor(") and all(type(d) is int for d in v.shape) for v in values
        )
        self.names = [o.name for o in session.get_outputs()]
        self.binding: Any = None
        self.inputs: Any = None  # names of the inputs that are bound

    def __call__(self, feeds: Dict[str, Any]) -> Any:
        """One call; the outputs as numpy arrays of their own."""
        new = feeds.keys() != self.inputs
        # An input that is left out now must not keep its last value.
        binding = self.session.io_binding() if new else self.binding
        for name, value in feeds.items():
            binding.bind_cpu_input(name, value)
        if new or not self.fixed:
            for name in self.names:
                binding.bind_output(name)
        self.binding, self.inputs = binding, set(feeds) if new else self.inputs
        self.session.run_with_iobinding(binding, self.run_options)
        return binding.copy_outputs_to_cpu()


class Case:
    """One input shape: its feeds and what was measured with them."""

    def __init__(
        self,
        ort: Any,
        session: Any,
        settings: channels.Settings,
        feed: Dict[str, Any],
        values: Any,
        bound: Optional[Bound] = None,
    ) -> None:
        self.name, self.weight = feed["name"], feed["weight"]
        self.session = session
        self.names = [o.name for o in session.get_outputs()]
        feeds, needs_ort_values = values.read_feeds(feed["path"])
        if needs_ort_values:
            feeds = values.as_ort_values(ort, feeds, values.bit_types(feed["path"]))
            self.call: Callable[[], Any] = lambda: session.run_with_ort_values(
                self.names, feeds, settings.run
            )
        elif bound is not None:
            self.call = lambda: bound(feeds)
        else:
            self.call = lambda: session.run(self.names, feeds, settings.run)
        self.latencies: List[int] = []
        self.waits: List[int] = []
        self.first_ns = self.warmup_runs = 0
        self.steady = True
        self.shapes: List[List[int]] = []

    def first(self, outputs_path: str, values: Any) -> None:
        """Times the first run and keeps its outputs: later ones of random operators differ."""
        start = timing.CLOCK()
        outputs = self.call()
        self.first_ns = timing.CLOCK() - start
        self.shapes = values.shapes(outputs)
        if outputs_path:
            types = [o.type for o in self.session.get_outputs()]
            values.write_outputs(os.path.join(outputs_path, self.name), self.names, types, outputs)

    def warm_up(self, request: Dict[str, Any]) -> None:
        """Calls until it is steady."""
        self.warmup_runs, self.steady = timing.warm_up(
            self.call,
            request["warmup_runs"],
            request["warmup_ns"],
            request["warmup_cap_ns"],
            request["gap_ns"],
        )

    def time(self, request: Dict[str, Any], chunk: int, chunks: int) -> None:
        """Times one of the chunks that the runs are cut into."""
        # As often as the mix has it, so that what is pooled (CPU time, tails, throughput) is of the mix too.
        feeds = request["feeds"]
        share = self.weight * len(feeds) / sum(feed["weight"] for feed in feeds)
        runs = round(request["runs"] * share)
        if request["runs"] and len(feeds) > 1:
            runs = max(3, runs)  # a shape that is rare in the mix has a median all the same
        n = runs * (chunk + 1) // chunks - runs * chunk // chunks
        latencies, waits = timing.timed(self.call, n, request["gap_ns"], request["wait_ratio"])
        self.latencies += latencies
        self.waits += waits

    def drop_last(self) -> None:
        """Forgets the last timed run."""
        del self.latencies[-1:], self.waits[-1:]

    def report(self) -> Dict[str, Any]:
        """What was measured, as the message wants it."""
        return {
            "case": self.name, "weight": self.weight, "latency_ns": self.latencies, "first_ns": self.first_ns,
            "warmup_runs": self.warmup_runs, "steady": self.steady, "waits_ns": self.waits,
            "output_shapes": self.shapes,
        }  # fmt: skip


def caller(
    ort: Any, session: Any, settings: channels.Settings, feeds: List[Dict[str, Any]], values: Any
) -> List[Case]:
    """One caller's cases; where inputs and outputs are bound, one binding serves them all."""
    bound = Bound(session, settings.run) if settings.call_style == "io_binding" else None
    return [Case(ort, session, settings, feed, values, bound) for feed in feeds]


def reports(callers: List[List[Case]]) -> List[Dict[str, Any]]:
    """One report a case, the latencies of all callers together."""
    found = []
    for alike in zip(*callers):
        report = alike[0].report()
        for other in alike[1:]:
            report["latency_ns"] = report["latency_ns"] + other.latencies
            report["waits_ns"] = report["waits_ns"] + other.waits
        found.append(report)
    return found
