"""Compares a model with its lock: every difference between two snapshots, most important first."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import msgspec

from ortune.catalogue.named import GRAPH_OPTIMIZATION_LEVEL as LEVEL
from ortune.engines.locks.outputs import step
from ortune.outputs.ways import DEFAULT_LIMITS, LIMITS
from ortune.records import GraphSnapshot, LockChange, OutputSnapshot, Snapshot, Uncompared, Value

ELSEWHERE = 0.01
"""Relative limit for output statistics on a different kind of processor or onnxruntime version, where rounding differs.

It is far above the effect of reordered sums, and far below that of a wrong kernel.
"""

PEAK_WORTH_SAYING = 0.01

_ORDER = (
    "settings", "operator", "nodes", "peak-memory", "weights-type", "parameters", "placement", "inserted", "input",
    "output", "output-values", "structure", "not-compared", "level", "shapes", "ort-version", "opset", "producer",
    "weights", "file",
)  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class Differences:
    """The result of comparing a model with its lock.

    Attributes:
        changes: The differences, most important first.
        uncompared: Parts that were compared only partly, or not at all.
        tolerance_ratio: Accepted relative difference of floating-point output statistics.
    """

    changes: tuple[LockChange, ...]
    uncompared: tuple[Uncompared, ...]
    tolerance_ratio: float

    @property
    def not_compared(self) -> tuple[str, ...]:
        """Parts that were not compared at all."""
        return tuple(item.part for item in self.uncompared if item.part)


def differences(
    was: Snapshot, now: Snapshot, *, tolerance: float | None = None, strict: bool = False
) -> Differences:
    """Return the changes between two snapshots, and the parts that could not be compared."""
    alike = same_processor(was, now) and (was.ort_version, was.ort_web) == (now.ort_version, now.ort_web)
    usual = DEFAULT_LIMITS[0] if alike else ELSEWHERE
    uncompared: list[Uncompared] = []
    changes = [
        *_settings(was, now),
        *_graphs(was, now, uncompared),
        *_model(was, now),
        *_interface(was, now),
        *_run(was, now, uncompared),
        *_outputs(was, now, tolerance, usual, uncompared),
        *_versions(was, now),
    ]
    changes += _file(was, now, changes)
    if strict:
        changes = [msgspec.structs.replace(c, fails=True) for c in changes]
        changes += [LockChange(part="not-compared", name=item.part) for item in uncompared if item.part]
    # The sort is stable: the order within a part, with the largest changes first, is preserved.
    changes.sort(key=lambda c: (not c.fails, _ORDER.index(c.part)))
    uncompared.sort(key=lambda item: not item.part)
    return Differences(
        changes=tuple(changes),
        uncompared=tuple(uncompared),
        tolerance_ratio=usual if tolerance is None else tolerance,
    )


def same_processor(was: Snapshot, now: Snapshot) -> bool:
    """Return whether both snapshots were taken on the same kind of processor, on which some parts depend."""
    return (was.hardware.machine, was.hardware.features) == (now.hardware.machine, now.hardware.features)


def _levels(snapshot: Snapshot) -> dict[str, GraphSnapshot]:
    return {**snapshot.levels, **snapshot.hardware.levels}


def _settings(was: Snapshot, now: Snapshot) -> Iterator[LockChange]:
    old, new = (_plan(s) for s in (was, now))
    for name in sorted(old.keys() | new.keys()):
        if old.get(name) != new.get(name):
            yield LockChange(part="settings", name=name, was=_value(old.get(name)), now=_value(new.get(name)))


def _plan(snapshot: Snapshot) -> dict[str, Value]:
    plan = snapshot.run.plan
    parts: dict[str, Value] = dict(plan.settings)
    if parts.get(LEVEL.name) == LEVEL.default:
        del parts[LEVEL.name]
    if plan.providers:
        parts["providers"] = ", ".join(p.name for p in plan.providers)
    if plan.rewrites:
        parts["rewrites"] = ", ".join(r.name for r in plan.rewrites)
    return parts


def _value(value: Value | None) -> int | float | str:
    if value is None:
        return "default"
    return int(value) if isinstance(value, bool) else value


def _graphs(was: Snapshot, now: Snapshot, uncompared: list[Uncompared]) -> Iterator[LockChange]:
    """Yield the changes of the graph that ran, or if it has none, of the graphs of other levels."""
    old, new = _levels(was), _levels(now)
    comparable = set(LEVEL.choices) if same_processor(was, now) else was.levels.keys() & now.levels.keys()
    pair = (was.run.level, now.run.level)
    if not same_processor(was, now):
        uncompared.append(Uncompared(part="level all", why="processor"))
        if was.hardware.machine != now.hardware.machine:
            uncompared.append(Uncompared(why="architecture"))
        # The highest level that does not depend on the processor represents the graph that runs.
        pair = (
            pair[0] if pair[0] in comparable else "extended",
            pair[1] if pair[1] in comparable else "extended",
        )
    shown = list(_graph(old[pair[0]], new[pair[1]]))
    shown += _peak(old[pair[0]], new[pair[1]], same_sizes=was.run.shapes == now.run.shapes)
    yield from shown
    if pair[0] != pair[1]:
        return
    for level in LEVEL.choices:
        if level in comparable and level != pair[0] and level in old and level in new:
            a, b = old[level], new[level]
            # Changes below the level that runs disappear at that level: reported only if there are no others.
            if a.operators != b.operators and not shown:
                yield LockChange(part="level", name=level, was=a.nodes, now=b.nodes, fails=False)


def _graph(was: GraphSnapshot, now: GraphSnapshot) -> Iterator[LockChange]:
    names = was.operators.keys() | now.operators.keys()
    changes = {n: (was.operators.get(n, 0), now.operators.get(n, 0)) for n in names}
    changes = {n: c for n, c in changes.items() if c[0] != c[1]}
    # A missing fusion explains the other changes, so it is first; then the largest changes.
    lost = {n for n, (a, b) in changes.items() if b < a and (n in was.fused or ":" in n)}
    order = sorted(changes, key=lambda n: (n not in lost, -abs(changes[n][0] - changes[n][1]), n))
    for name in order:
        yield LockChange(part="operator", name=name, was=changes[name][0], now=changes[name][1])
    if was.nodes != now.nodes:
        yield LockChange(part="nodes", was=was.nodes, now=now.nodes)
    if not changes and was.structure != now.structure:
        yield LockChange(part="structure", was=was.structure, now=now.structure)
    for name in sorted(was.inserted.keys() | now.inserted.keys()):
        before, after = was.inserted.get(name, 0), now.inserted.get(name, 0)
        # Changes that follow from the operators are not repeated.
        if before != after and name not in changes:
            yield LockChange(part="inserted", name=name, was=before, now=after, fails=False)


def _peak(was: GraphSnapshot, now: GraphSnapshot, *, same_sizes: bool) -> Iterator[LockChange]:
    old, new = (g.weights_bytes + g.peak_activation_bytes for g in (was, now))
    if abs(new - old) > PEAK_WORTH_SAYING * max(old, 1):
        # The difference may be due to other input sizes, or to values of unknown size, which are not counted.
        alike = same_sizes and was.unknown_values == now.unknown_values
        yield LockChange(part="peak-memory", was=old, now=new, fails=alike)


def _model(was: Snapshot, now: Snapshot) -> Iterator[LockChange]:
    old, new = was.model, now.model
    for kind in sorted(old.weights_bytes.keys() | new.weights_bytes.keys()):
        before, after = old.weights_bytes.get(kind, 0), new.weights_bytes.get(kind, 0)
        if before != after:
            yield LockChange(part="weights-type", name=kind, was=before, now=after)
    if old.parameters != new.parameters:
        yield LockChange(part="parameters", was=old.parameters, now=new.parameters)
    if old.weights != new.weights:
        named = list(_weights(old.tensors, new.tensors)) if old.tensors else []
        yield from named or [LockChange(part="weights", was=old.weights, now=new.weights, fails=False)]


def _weights(was: Mapping[str, str], now: Mapping[str, str]) -> Iterator[LockChange]:
    """Yield the tensors with changed values, without tensors that were only renamed."""
    for name in dict.fromkeys((*was, *now)):
        before, after = was.get(name), now.get(name)
        moved = after in was.values() if before is None else after is None and before in now.values()
        if before != after and not moved:
            yield LockChange(part="weights", name=name, was=before, now=after, fails=False)


def _file(was: Snapshot, now: Snapshot, changes: list[LockChange]) -> Iterator[LockChange]:
    """Yield a change if the file differs but its weights are equal, with a note if only names or order differ."""
    old, new = was.model, now.model
    if old.sha256 == new.sha256 or old.weights != new.weights:
        return
    alone = old.contents == new.contents != "" and all(c.part == "ort-version" for c in changes)
    name = "names or order" if alone else ""
    yield LockChange(part="file", name=name, was=old.sha256[:12], now=new.sha256[:12], fails=False)


def _interface(was: Snapshot, now: Snapshot) -> Iterator[LockChange]:
    for part, old, new in (
        ("input", was.model.inputs, now.model.inputs),
        ("output", was.model.outputs, now.model.outputs),
    ):
        if [_without_symbols(t) for t in old] == [_without_symbols(t) for t in new]:
            continue
        before, after = (dict(_named(text) for text in texts) for texts in (old, new))
        names = dict.fromkeys((*before, *after))
        changed = [n for n in names if _plain(before.get(n)) != _plain(after.get(n))]
        for name in changed:
            yield LockChange(part=part, name=name, was=before.get(name), now=after.get(name))
        if not changed:
            yield LockChange(part=part, name="order", was=", ".join(before), now=", ".join(after))


def _named(text: str) -> tuple[str, str]:
    name, _, kind = text.rpartition(": ")
    return name, kind


def _plain(kind: str | None) -> str | None:
    return None if kind is None else _without_symbols(f": {kind}")


def _without_symbols(text: str) -> str:
    """Return an interface text without the names of its dynamic dimensions, which depend on the exporter."""
    name, kind = _named(text)
    head, bracket, dims = kind.partition("[")
    if not bracket or dims == "...]":
        return text
    sizes = (d if d.isdigit() else "?" for d in dims.removesuffix("]").split(","))
    return f"{name}: {head}[{','.join(sizes) if dims != ']' else ''}]"


def _run(was: Snapshot, now: Snapshot, uncompared: list[Uncompared]) -> Iterator[LockChange]:
    old, new = was.run, now.run
    if not (old.placement and new.placement):
        uncompared.append(Uncompared(part="placement", why="untold-then" if new.placement else "untold-now"))
    elif old.level == new.level:
        yield from _placement(was, now, uncompared)
    for name in old.shapes.keys() & new.shapes.keys():
        if old.shapes[name] != new.shapes[name]:
            yield LockChange(
                part="shapes",
                name=name,
                was=_dims(old.shapes[name]),
                now=_dims(new.shapes[name]),
                fails=False,
            )


def _placement(was: Snapshot, now: Snapshot, uncompared: list[Uncompared]) -> Iterator[LockChange]:
    old, new = was.run.placement, now.run.placement
    providers = sorted(old.keys() | new.keys())
    if len(providers) == 1:
        return  # this provider has all nodes, whose number is reported already
    if not same_processor(was, now):
        # The number of nodes on the CPU provider depends on its fusions for the processor.
        uncompared.append(Uncompared(part="placement", why="processor"))
        return
    for name in providers:
        before, after = old.get(name, 0), new.get(name, 0)
        if before != after:
            yield LockChange(part="placement", name=name, was=before, now=after)


def _outputs(
    was: Snapshot, now: Snapshot, asked: float | None, usual: float, uncompared: list[Uncompared]
) -> Iterator[LockChange]:
    if was.run.feeds != now.run.feeds:
        uncompared.append(Uncompared(part="outputs", why="feeds"))
        return
    if was.run.random or now.run.random:
        uncompared.append(Uncompared(why="random"))
    if not same_processor(was, now) and any(o.exact for o in now.run.outputs):
        uncompared.append(Uncompared(why="rounded"))
    # Changed weights give other values, which is reported but is not a failure.
    fails = was.model.weights == now.model.weights
    before = {o.name: o for o in was.run.outputs}
    for output in now.run.outputs:
        old = before.get(output.name)
        if old is None:
            continue  # the interface already declares the change
        if (old.dtype, old.shape) != (output.dtype, output.shape):
            if not _declared(was, now, old, output):
                yield LockChange(part="output", name=output.name, was=_kind(old), now=_kind(output))
            continue
        if old.finite != output.finite:
            yield LockChange(
                part="output-values",
                name=f"{output.name}: finite values",
                was=old.finite,
                now=output.finite,
            )
            continue
        tolerance = max(usual, LIMITS.get(output.dtype, DEFAULT_LIMITS)[0]) if asked is None else asked
        differs = _differs(old, output, tolerance, exact=same_processor(was, now))
        if differs:
            figure, a, b = differs
            yield LockChange(part="output-values", name=f"{output.name}: {figure}", was=a, now=b, fails=fails)


def _declared(was: Snapshot, now: Snapshot, old: OutputSnapshot, new: OutputSnapshot) -> bool:
    """Return whether the model's interface already declares the change of an output's type or shape."""
    before, after = (_parts(dict(map(_named, s.model.outputs)).get(old.name, "")) for s in (was, now))
    a, b = _parts(_kind(old)), _parts(_kind(new))
    if (len(before), len(after)) != (len(a), len(b)):
        return False
    if len(a) != len(b):
        return True
    places = zip(before, after, a, b, strict=True)
    return all(came == comes or (said, says) == (came, comes) for said, says, came, comes in places)


def _parts(kind: str) -> list[str]:
    """Return the type and dimensions of a text such as "float[1,10]"."""
    name, _, dims = kind.removesuffix("]").partition("[")
    return [name, *(dims.split(",") if dims else [])]


def _differs(
    was: OutputSnapshot, now: OutputSnapshot, tolerance: float, *, exact: bool
) -> tuple[str, float | str, float | str] | None:
    """Return the name and both values of the first statistic that differs; None if none does."""
    if None not in (was.mean, was.l2, was.sketch, now.mean, now.l2, now.sketch):
        assert was.mean is not None and was.l2 is not None and was.sketch is not None
        assert now.mean is not None and now.l2 is not None and now.sketch is not None
        norm = max(was.l2, now.l2)
        rms = norm / math.sqrt(max(was.finite or 1, 1))
        for figure, a, b, unit in (
            ("norm", was.l2, now.l2, norm),
            ("mean", was.mean, now.mean, rms),
            ("values by position", was.sketch, now.sketch, norm),
        ):
            # Both values were rounded, so they may differ by one rounding step.
            if abs(a - b) > tolerance * unit + step(unit):
                return figure, a, b
    text_only = was.finite is None
    if was.exact != now.exact and (exact or text_only):
        return "values", was.exact, now.exact
    return None


def _versions(was: Snapshot, now: Snapshot) -> Iterator[LockChange]:
    if was.ort_version != now.ort_version:
        yield LockChange(part="ort-version", was=was.ort_version, now=now.ort_version, fails=False)
    if was.ort_web != now.ort_web:
        yield LockChange(
            part="ort-version", name="onnxruntime-web", was=was.ort_web, now=now.ort_web, fails=False
        )
    for domain, (a, b) in _pairs(was.model.opsets, now.model.opsets).items():
        # Exporters list different versions of domains that no node uses.
        yield LockChange(part="opset", name=domain, was=a, now=b, fails=False)
    if was.model.producer != now.model.producer:
        yield LockChange(
            part="producer",
            was=was.model.producer or "unknown",
            now=now.model.producer or "unknown",
            fails=False,
        )


def _pairs(was: Mapping[str, int], now: Mapping[str, int]) -> dict[str, tuple[int | None, int | None]]:
    names = sorted(was.keys() | now.keys())
    return {n: (was.get(n), now.get(n)) for n in names if was.get(n) != now.get(n)}


def _kind(output: OutputSnapshot) -> str:
    return f"{output.dtype}[{_dims(output.shape, ',')}]"


def _dims(shape: tuple[int, ...], sign: str = "x") -> str:
    return sign.join("?" if d < 0 else str(d) for d in shape)
