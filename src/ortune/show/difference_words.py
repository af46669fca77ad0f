"""The difference between two profiles in words: the change of time, B minus A."""

from __future__ import annotations

import re
from collections.abc import Sequence

import msgspec

from ortune.printable import amount, first_of
from ortune.records import DifferenceRow, GpuDifference, ProfileDifference
from ortune.show import headline as heads
from ortune.show.difference_tables import beneath, is_hidden, no_difference, within_noise, work
from ortune.show.numbers import duration, percent, shorten
from ortune.show.profile_tables import category_words

NAMED = 5
EIGHT_BITS = 3
NAME = 48
_QUANTIZING = frozenset({"QuantizeLinear", "DequantizeLinear", "DynamicQuantizeLinear"})
_BECAME = " -> "  # separates the operators of A and B in a node's ``op_type``
DISTURBED = 1.3  # times the unprofiled run, longer or shorter, from which on the slowdown is mentioned
UNLIKE = 0.25  # share of the larger difference, above which the unprofiled difference is mentioned too
SAME = 0.02
"""Maximum distance of an interval's ends from 0, as a fraction of A's time, for two runs to be called equivalent."""
OWNER = 0.1  # share of the whole difference, from which on a node is named as the largest change


def headline(difference: ProfileDifference) -> str:
    """Return one sentence on the difference, with the node that has the largest change."""
    return difference.sentence or sentence(difference)


def answer(difference: ProfileDifference) -> str:
    """Return the headline with the verdict's word in front, unless the headline already begins with this word."""
    if no_difference(difference):
        return headline(difference)
    if is_hidden(difference):
        return f"{heads.word('inconclusive')}: {headline(difference)}"
    less = difference.b_wall_ns < difference.a_wall_ns
    return f"{heads.word('faster' if less else 'slower')}: {headline(difference)}"


def sentence(difference: ProfileDifference, name: str = "B") -> str:
    """Return a sentence on the difference, made from the profiles' times; ``name`` is the name of the second side."""
    if is_hidden(difference):
        return _hidden(difference, name)
    more = difference.b_wall_ns - difference.a_wall_ns
    both = f"{duration(difference.a_wall_ns)} -> {duration(difference.b_wall_ns)}"
    times = f"{both} a run, profiled ({'; '.join(_interval_and_slowdown(difference, more, name))})"
    if no_difference(difference):
        verdict = heads.word("equivalent" if _same(difference) else "inconclusive", within=SAME)
        return f"{verdict}: {times}{_differing_nodes(difference)}"
    part = f" ({percent(abs(more) / difference.a_wall_ns)})" if difference.a_wall_ns else ""
    which = " in these two processes" if _over_runs(difference) else ""
    text = f"{name} takes {_more(more, part)} than A{which}: {times}"
    # The node must change in the same direction as the whole run.
    largest = next((row for row in difference.nodes if row.difference_ns * more > 0), None)
    if largest is not None and abs(largest.difference_ns) >= OWNER * abs(more):
        text += f"; the node with the largest change is {shorten(largest.name, NAME)} ({row_change(largest)})"
    elif difference.nodes or difference.same_ns:
        text += "; no single node explains it"
    return text


def worded(difference: ProfileDifference, name: str = "B") -> ProfileDifference:
    """Return the difference with its sentence filled in."""
    return msgspec.structs.replace(difference, sentence=sentence(difference, name))


def reason_unknown(why: str) -> str:
    """Return a sentence that says that the source of a proven difference is unknown."""
    return f"the source of the difference is unknown: {why}"


def _hidden(difference: ProfileDifference, name: str) -> str:
    """Return a sentence that says that the profiler hides the difference, with the unprofiled difference if known."""
    plain = (
        f"; without the profiler, {name} takes {_more(difference.plain_ns)}" if difference.plain_ns else ""
    )
    took = f"a profiled run takes {_factors(difference)} as long as an unprofiled one"
    return f"the profiler's overhead hides the difference: {took}{plain}"


def _same(difference: ProfileDifference) -> bool:
    """Return whether the interval of the whole run's difference is within ``SAME`` of A's time around 0."""
    ends = (difference.low_ns, difference.high_ns)
    return all(end is not None and abs(end) <= SAME * difference.a_wall_ns for end in ends)


def _more(ns: float, part: str = "") -> str:
    return f"{duration(abs(ns))}{part} {'more' if ns > 0 else 'less'}"


def _span(difference: ProfileDifference) -> str:
    """Return the interval of the whole run's difference, or a note that there were too few runs for an interval."""
    if difference.low_ns is None or difference.high_ns is None:
        return "too few runs to distinguish it from noise"
    return f"95 % interval {_signed(difference.low_ns)} to {_signed(difference.high_ns)}"


def _differing_nodes(difference: ProfileDifference) -> str:
    """Return a phrase on the nodes that differ although the whole run does not; "" if there are none."""
    sure = beyond_noise(difference)
    if not sure:
        return ""
    # Nodes that ONNX Runtime inserted are only a consequence of what the user changed.
    row = next((row for row in sure if not row.name.startswith("inserted: ")), sure[0])
    first = f"{shorten(row.name, NAME)} ({row_change(row)})"
    return f"; {f'{len(sure)} nodes differ, mainly' if len(sure) > 1 else 'one node differs:'} {first}"


def beyond_noise(difference: ProfileDifference) -> list[DifferenceRow]:
    """Return the rows of nodes that differ by more than noise, the largest difference first."""
    return [row for row in difference.nodes if row.low_ns is not None and not within_noise(row)]


def row_change(row: DifferenceRow) -> str:
    """Return a row's change of time, with its change of work, if any, or the side if the row is only on one side."""
    change = _signed(row.difference_ns)
    if row.a_ns is None or row.b_ns is None:
        return f"only in {'B' if row.a_ns is None else 'A'}, {change}"
    return change if row.same_work else f"{work(row)}, {change}"


def _over_runs(difference: ProfileDifference) -> bool:
    """Return whether the intervals are computed from the runs of a single process on each side."""
    return difference.low_ns is not None and difference.a_processes == difference.b_processes == 1


def _interval_and_slowdown(difference: ProfileDifference, more: float, name: str) -> list[str]:
    """Return the interval and, where worth mentioning, the profiler's slowdown and the unprofiled difference."""
    parts = (_span(difference), _slowed(difference, name), _plain(difference, more, name))
    return [part for part in parts if part]


def _slowed(difference: ProfileDifference, name: str) -> str:
    """Return a phrase on how much the profiler slows down the runs; "" if by at most ``DISTURBED``."""
    ratios = _slowdowns(difference)
    if all(1 / DISTURBED <= ratio <= DISTURBED for ratio in ratios):
        return ""
    both = ((difference.a_slowdown_ratio, "A"), (difference.b_slowdown_ratio, name))
    factors = [f"{ratio:.1f}x ({side})" for ratio, side in both if ratio is not None]
    if len(ratios) > 1 and f"{ratios[0]:.1f}" == f"{ratios[1]:.1f}":
        factors = [f"{ratios[0]:.1f}x"]
    return f"profiled runs take {' and '.join(factors)} as long as unprofiled ones"


def _slowdowns(difference: ProfileDifference) -> list[float]:
    return [r for r in (difference.a_slowdown_ratio, difference.b_slowdown_ratio) if r is not None]


def _factors(difference: ProfileDifference) -> str:
    """Return the slowdowns of both sides by the profiler: "68.2x and 5.8x", or "5.8x" if they are equal."""
    return " and ".join(dict.fromkeys(f"{ratio:.1f}x" for ratio in _slowdowns(difference)))


def _plain(difference: ProfileDifference, more: float, name: str) -> str:
    """Return a phrase on the unprofiled difference; "" if it is close to the profiled difference or unknown."""
    plain = difference.plain_ns
    if plain is None or abs(more - plain) <= UNLIKE * max(abs(more), abs(plain)):
        return ""
    return f"without the profiler, {name} takes {_more(plain)}"


def operator_change(difference: ProfileDifference, name: str = "B") -> str:
    """Return the replaced operators that explain most of the difference: "9 Conv became ConvInteger in B (-2.1 ms)".

    "" if they explain only a small part.
    """
    kinds: dict[str, list[DifferenceRow]] = {}
    for row in difference.nodes:
        if _BECAME in row.op_type:
            kinds.setdefault(row.op_type, []).append(row)
    if is_hidden(difference):
        return ""
    more = difference.b_wall_ns - difference.a_wall_ns
    changes = {kind: sum(row.difference_ns for row in rows) for kind, rows in kinds.items()}
    kind = max(changes, key=lambda kind: changes[kind] * more, default="")
    if not kind or changes[kind] * more < OWNER * more * more:
        return ""
    if " + " in kind and of_eight_bits(difference, name):
        return ""  # ``of_eight_bits`` reports each of these operators
    was, _, now = kind.partition(_BECAME)
    n_nodes = sum(len(row.a_nodes) for row in kinds[kind])
    what = f"{n_nodes} nodes ({was})" if " + " in was else f"{n_nodes} {was}"
    return f"{what} became {now} in {name} ({_signed(changes[kind])})"


def on_gpu(gpu: GpuDifference) -> str:
    """Return a phrase on how the total time and the number of GPU kernels changed."""
    sure = gpu.low_ns is not None and gpu.high_ns is not None
    span = f" ({_signed(gpu.low_ns or 0.0)} to {_signed(gpu.high_ns or 0.0)})" if sure else ""
    counts = f"{gpu.a_kernels} kernels per run -> {gpu.b_kernels}"
    return f"on the GPU {duration(gpu.a_ns)} -> {duration(gpu.b_ns)}{span}, {counts}"


def of_eight_bits(difference: ProfileDifference, name: str = "B") -> str:
    """Return a phrase on the 8-bit operators that replace float operators, with both times and the cost of quantizing.

    "" if there are no such operators.
    """
    if is_hidden(difference):
        return ""
    rows = {row.name: row for row in difference.operators}
    side = name if any(_float_form(row.name) and row.a_ns is None for row in difference.operators) else "A"
    pairs: dict[str, list[DifferenceRow]] = {}
    for row in difference.operators:
        if _float_form(row.name) and None in (row.a_ns, row.b_ns):
            pairs.setdefault(_float_form(row.name), []).append(row)
    parts_by_size: list[tuple[float, str]] = []
    for was, quantized in pairs.items():
        whole = [*quantized, *(rows[operator] for operator in (was, f"Fused{was}") if operator in rows)]
        first, second = (
            sum(ns or 0.0 for ns in times) for times in ([r.a_ns for r in whole], [r.b_ns for r in whole])
        )
        if first and second:
            kinds = " and ".join(row.name for row in quantized)
            parts_by_size.append(
                (abs(second - first), f"{kinds} instead of {was}, {duration(first)} -> {duration(second)}")
            )
    if not parts_by_size:
        return ""
    parts_by_size.sort(reverse=True)
    more = sum(row.difference_ns for row in difference.operators if row.name in _QUANTIZING)
    parts = [text for _, text in parts_by_size[:EIGHT_BITS]] + (
        [f"quantizing itself {_signed(more)}"] if more else []
    )
    return f"8-bit operators in {side}: {'; '.join(parts)} (profiled)"


def _float_form(operator: str) -> str:
    """Return the float operator that an 8-bit operator replaces; "" for other operators."""
    match = re.fullmatch(r"(?:QLinear|Q|DynamicQuantize)(\w+)|(\w+)Integer(?:ToFloat)?", operator)
    return (match[1] or match[2]) if match and operator not in _QUANTIZING else ""


def brief(difference: ProfileDifference, most: int = 5) -> list[str]:
    """Return a few lines on the difference for another verb's result: the headline, then at most ``most`` nodes."""
    lines = [headline(difference)]
    if difference.gpu is not None:  # on a GPU the host's times of nodes only measure queueing
        lines.append(on_gpu(difference.gpu))
        difference = msgspec.structs.replace(difference, nodes=difference.gpu.nodes)
    elif is_hidden(difference):
        return lines
    rows = [(category_words(r.name), r) for r in difference.categories[:1]] + [
        (r.name, r) for r in difference.nodes[:most]
    ]
    for name, row in rows:
        if not within_noise(row):
            both = " -> ".join("-" if ns is None else duration(ns) for ns in (row.a_ns, row.b_ns))
            kind = f" ({row.op_type})" if beneath(row) else ""
            lines.append(f"{_signed(row.difference_ns)}  {shorten(name, NAME)}{kind}: {both}")
    return lines


def notes(difference: ProfileDifference) -> list[tuple[str, str]]:
    """Return pairs of a name and a text: the sides, nodes on only one side, noise, matching, processes."""
    rows = [
        ("A", difference.a),
        ("B", difference.b),
        ("kernels", on_gpu(difference.gpu) if difference.gpu is not None else ""),
        (
            "only in A",
            _names(difference.only_a, sum(r.a_ns or 0.0 for r in difference.nodes if r.b_ns is None)),
        ),
        (
            "only in B",
            _names(difference.only_b, sum(r.b_ns or 0.0 for r in difference.nodes if r.a_ns is None)),
        ),
    ]
    if difference.same_ns:
        rows.append(("within noise", f"nodes not listed differ by {_signed(difference.same_ns)} together"))
    if difference.rest_ns:
        rows.append(("the rest", f"further nodes differ by {_signed(difference.rest_ns)} together"))
    rows.append(("matched", _matched(difference)))
    rows.append(("profiled", _profiled(difference)))
    return [(name, text) for name, text in rows if text]


def _profiled(difference: ProfileDifference) -> str:
    """Return the number of processes on both sides, and whether the intervals are over runs or processes."""
    n = difference.a_processes
    processes = f"{amount(n, 'process', 'processes')} on each side"
    if n != difference.b_processes:
        processes = f"{n} processes of A, {difference.b_processes} of B"
    if difference.low_ns is None:
        return f"{processes}: too few for intervals, so noise cannot be separated from change"
    if _over_runs(difference):
        return f"{processes}: intervals are over its runs; processes may differ by more"
    return f"{processes}; intervals are over processes, and wider the more rows there are"


def _matched(difference: ProfileDifference) -> str:
    """Return a phrase on how many nodes were matched by name or order, as their origin is unknown; "" if none were."""
    parts = []
    if difference.by_name:
        parts.append(f"{difference.by_name} by name")
    if difference.by_order:
        parts.append(f"{difference.by_order} by operator and order only, which is a guess")
    if not parts:
        return ""
    their = "its origin" if difference.by_name + difference.by_order == 1 else "their origin"
    return f"{', '.join(parts)}: {their} in the model is unknown"


def _names(names: Sequence[str], ns: float) -> str:
    if not names:
        return ""
    first = first_of([shorten(name, 36) for name in names], NAMED)
    return f"{amount(len(names), 'node')}, {duration(ns)}: {first}"


def _signed(ns: float) -> str:
    return f"{'+' if ns >= 0 else '-'}{duration(abs(ns))}"
