"""Timed calls of one caller: one case per input shape, run alone or concurrently with other callers."""

from __future__ import annotations

import os
from typing import Any, Callable, Dict, List, NamedTuple, Optional, Tuple, Union

from . import channels, timing
from .protocol import Stop


class Bound:
    """Callable that runs a session through one reused IOBinding, as ``run`` of a bundle's load.py.

    Each call binds its arrays. Outputs keep their memory only if no shape can change, since ONNX Runtime rejects
    results that do not fit.
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
        """Run once; return the outputs as separate numpy arrays."""
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


class Buffers(NamedTuple):
    """IOBinding for one set of input shapes, with its inputs and outputs in device memory."""

    binding: Any
    inputs: Dict[str, Any]
    outputs: List[Any]
    run_options: Any


class DeviceBound:
    """Callable that runs a session with inputs and outputs in device memory.

    The buffers of a shape keep their addresses, which replaying a captured graph requires. If the plan keeps values on
    the device, a call copies nothing, and ends when the device is done.
    """

    def __init__(
        self, ort: Any, session: Any, settings: channels.Settings, memory: str, captures: bool
    ) -> None:
        self.ort, self.session, self.settings = ort, session, settings
        self.memory, self.captures = memory, captures
        self.stays = settings.call_style == "device_resident"
        self.bound: Dict[Any, Buffers] = {}  # by the inputs' shapes

    def __call__(self, feeds: Dict[str, Any]) -> Any:
        """Run once; return the outputs as separate numpy arrays, or None if they stay on the device."""
        if not self.stays:
            return self.read(feeds)
        self.stay(feeds)
        return None

    def stay(self, feeds: Dict[str, Any]) -> Buffers:
        """Run once without copies, and wait for the device; return the buffers."""
        buffers = self._buffers(feeds)
        self.session.run_with_iobinding(buffers.binding, buffers.run_options)
        buffers.binding.synchronize_outputs()
        return buffers

    def fetch(self, feeds: Dict[str, Any]) -> List[Any]:
        """Run once with inputs that are on the device; return the outputs as separate numpy arrays."""
        return [value.numpy() for value in self.stay(feeds).outputs]

    def read(self, feeds: Dict[str, Any]) -> Any:
        """Run once, copying inputs and outputs regardless of the plan."""
        buffers = self._buffers(feeds)
        for name, value in feeds.items():
            buffers.inputs[name].update_inplace(value)
        self.session.run_with_iobinding(buffers.binding, buffers.run_options)
        return [value.numpy() for value in buffers.outputs]

    def _buffers(self, feeds: Dict[str, Any]) -> Buffers:
        key = tuple((name, value.shape, value.dtype.str) for name, value in feeds.items())
        if key not in self.bound:
            self.bound[key] = self._bind(feeds)
        return self.bound[key]

    def unbindable(self, feeds: Dict[str, Any]) -> List[str]:
        """Return the names of inputs and outputs that cannot be in a device's memory."""
        named = {o.name: o.type for o in self.session.get_outputs()}
        texts = [name for name, value in feeds.items() if _kind(value) in "OUS"]
        others = [name for name, kind in named.items() if not kind.startswith("tensor(") or "string" in kind]
        return texts + others

    def _bind(self, feeds: Dict[str, Any]) -> Buffers:
        named = [o.name for o in self.session.get_outputs()]
        for name in self.unbindable(feeds):
            raise Stop("unsupported", "%s cannot be bound to device memory" % name, "call_style")
        binding, make = self.session.io_binding(), self.ort.OrtValue.ortvalue_from_numpy
        inputs = {name: make(value, self.memory, 0) for name, value in feeds.items()}
        outputs = [make(value, self.memory, 0) for value in self._results(feeds)]
        for name, value in inputs.items():
            binding.bind_ortvalue_input(name, value)
        for name, value in zip(named, outputs):
            binding.bind_ortvalue_output(name, value)
        options = self.settings.run
        if self.captures:
            # A captured graph can only be replayed with the shapes of its capture.
            options = self.ort.RunOptions()
            options.add_run_config_entry("gpu_graph_id", str(len(self.bound)))
        return Buffers(binding, inputs, outputs, options)

    def _results(self, feeds: Dict[str, Any]) -> List[Any]:
        """Return the outputs of a plain run, for their shapes and types; it must not be the captured one."""
        options = self.ort.RunOptions()
        options.add_run_config_entry("gpu_graph_id", "-1")
        results: List[Any] = self.session.run(None, feeds, options)
        return results


def _kind(value: Any) -> str:
    """Return the kind of an array's elements in numpy's notation; "O" for values that are not arrays."""
    kind: str = value.dtype.kind if hasattr(value, "dtype") else "O"
    return kind


class TimedCase:
    """One input shape with its calls and their measurements.

    Args:
        feed: Name and weight of the shape.
        call: Makes one timed run.
        outputs: Returns names and ONNX types of the outputs, called after the first run.
        read: Makes one run and returns the outputs; None if ``call`` does.
        other: Makes one run on other inputs, if a graph is captured.
        feeds: The input values, if they can be in a device's memory.
        device: Runs the session with values in that memory; None if not used.
    """

    def __init__(
        self,
        feed: Dict[str, Any],
        call: Callable[[], Any],
        outputs: Callable[[], List[Tuple[str, str]]],
        read: Optional[Callable[[], Any]] = None,
        other: Optional[Callable[[], Any]] = None,
        feeds: Optional[Dict[str, Any]] = None,
        device: Optional[DeviceBound] = None,
    ) -> None:
        self.feeds, self.device = feeds or {}, device
        self.name, self.weight = feed["name"], feed["weight"]
        self.call, self.outputs, self.read, self.other = call, outputs, read or call, other
        self.latencies: List[int] = []
        self.waits: List[int] = []
        self.turns: List[int] = []  # how many latencies there were after each turn
        self.first_ns = self.warmup_runs = 0
        self.steady = True
        self.shapes: List[List[int]] = []

    def first(self, outputs_path: str, values: Any) -> None:
        """Time the first run and store its outputs, since later outputs of random operators differ.

        A graph is captured on other inputs first, so the stored outputs come from a replay with changed inputs, which
        reveals captured input values.
        """
        start = timing.CLOCK()
        outputs = (self.other or self.read)()
        self.first_ns = timing.CLOCK() - start
        if self.other is not None:
            self.other()
            outputs = self.read()
        self.shapes = values.shapes(outputs)
        if outputs_path:
            names, types = zip(*self.outputs())
            values.write_outputs(os.path.join(outputs_path, self.name), names, types, outputs)

    def warm_up(self, request: Dict[str, Any]) -> None:
        """Call until the latency is steady."""
        self.warmup_runs, self.steady = timing.warm_up(
            self.call,
            request["warmup_runs"],
            request["warmup_ns"],
            request["warmup_cap_ns"],
            request["gap_ns"],
        )

    def due(self, request: Dict[str, Any], runs: int) -> int:
        """Return the number of runs of this shape in a batch, by its weight."""
        # In proportion to its weight, so pooled values (CPU time, tails, throughput) describe the mix.
        feeds = request["feeds"]
        # Example: weights of 1 and 3, 8 runs a shape: 4 and 12 runs.
        share = self.weight * len(feeds) / sum(feed["weight"] for feed in feeds)
        due: int = round(runs * share)
        # Even a rare shape has a run in every turn, since turns are compared.
        return max(1, due) if runs and len(feeds) > 1 else due

    def time(self, request: Dict[str, Any], runs: int, chunk: int, chunks: int) -> None:
        """Time one chunk of a batch."""
        due = self.due(request, runs)
        # Example: 10 runs in 4 chunks: 2, 3, 2, 3.
        n = due * (chunk + 1) // chunks - due * chunk // chunks
        latencies, waits = timing.timed(self.call, n, request["gap_ns"], request["wait_ratio"])
        self.latencies += latencies
        self.waits += waits

    def drop_last(self) -> None:
        """Discard the last timed run."""
        del self.latencies[-1:], self.waits[-1:]


def caller(
    ort: Any, session: Any, settings: channels.Settings, request: Dict[str, Any], values: Any
) -> List[TimedCase]:
    """Return the cases of one caller, which share one binding if inputs and outputs are bound."""
    bound: Union[Bound, DeviceBound, None] = None
    if settings.most_rows is not None:
        settings.rows = _in_rows(session, settings.most_rows)
    if settings.call_style == "io_binding":
        bound = Bound(session, settings.run)
    elif settings.call_style != "run":
        bound = _on_device(ort, session, settings, request)
    resident = _on_device(ort, session, settings, request) if request["transfers"] else None
    return [_case(ort, session, settings, feed, values, bound, resident) for feed in request["feeds"]]


def _in_rows(session: Any, most: int) -> Any:
    from .rows import InRows  # imports numpy, which must not fail before it can be said

    try:
        return InRows(session, most)
    except ValueError as error:
        raise Stop("unsupported", str(error), "rows_per_run") from error


def _on_device(ort: Any, session: Any, settings: channels.Settings, request: Dict[str, Any]) -> DeviceBound:
    return DeviceBound(ort, session, settings, request["device_memory"], request["captures"])


def _case(
    ort: Any,
    session: Any,
    settings: channels.Settings,
    feed: Dict[str, Any],
    values: Any,
    bound: Union[Bound, DeviceBound, None],
    resident: Optional[DeviceBound],
) -> TimedCase:
    """Return the case of one shape; ``resident`` runs it with values in device memory."""

    def outputs() -> List[Tuple[str, str]]:
        return [(o.name, o.type) for o in session.get_outputs()]

    names = [o.name for o in session.get_outputs()]
    feeds, needs_ort_values = values.read_feeds(feed["path"])
    if needs_ort_values and bound is not None:
        # Ignoring the setting would make it look like one that changes nothing.
        what = "%s does not support inputs of a type that numpy lacks" % settings.call_style
        raise Stop("unsupported", what, "call_style")
    if needs_ort_values and settings.rows is not None:
        raise Stop("unsupported", "inputs of a type that numpy lacks cannot be split", "rows_per_run")
    if needs_ort_values:
        typed = values.as_ort_values(ort, feeds, values.bit_types(feed["path"]))
        return TimedCase(feed, lambda: session.run_with_ort_values(names, typed, settings.run), outputs)
    if isinstance(bound, DeviceBound):
        device = bound
        other = (lambda: device.read(values.shifted(feeds))) if device.captures else None
        calls = (lambda: device(feeds)), outputs, (lambda: device.read(feeds))
        # Buffers belong to the id of their captured graph; other buffers would capture a second graph with it.
        return TimedCase(feed, *calls, other, feeds, device)
    if bound is not None:
        binding = bound
        return TimedCase(feed, lambda: binding(feeds), outputs, feeds=feeds, device=resident)
    if settings.rows is not None:
        in_rows = settings.rows

        def run(part: Dict[str, Any]) -> Any:
            return session.run(names, part, settings.run)

        return TimedCase(feed, lambda: in_rows.run(run, feeds), outputs, feeds=feeds, device=resident)
    return TimedCase(
        feed, lambda: session.run(names, feeds, settings.run), outputs, feeds=feeds, device=resident
    )


def reports(callers: List[List[TimedCase]]) -> List[Dict[str, Any]]:
    """Return one report per case, with the latencies of all callers in the order of the turns."""
    cases = []
    for alike in zip(*callers):
        case = alike[0]
        latencies: List[int] = []
        waits: List[int] = []
        turn_runs = []
        for turn in range(len(case.turns)):
            before = len(latencies)
            for caller_case in alike:
                of_turn = slice(caller_case.turns[turn - 1] if turn else 0, caller_case.turns[turn])
                latencies += caller_case.latencies[of_turn]
                waits += caller_case.waits[of_turn]
            turn_runs.append(len(latencies) - before)
        cases.append({
            "case": case.name, "weight": case.weight, "latency_ns": latencies, "first_ns": case.first_ns,
            "warmup_runs": case.warmup_runs, "steady": case.steady and _level(latencies, turn_runs), "waits_ns": waits,
            "output_shapes": case.shapes, "turn_runs": turn_runs,
        })  # fmt: skip
    return cases


def _level(latencies: List[int], turn_runs: List[int]) -> bool:
    """Return whether the latencies of the first and last turn agree."""
    if len(turn_runs) < 2:
        return True
    return timing.agree(latencies[: turn_runs[0]], latencies[-turn_runs[-1] :])
