"""A page's report on itself and its trial: untrusted data, read within limits.

Also reads placement and applied settings from ONNX Runtime's console log.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Annotated

import msgspec

from ortune.catalogue.named import WEB_BUILD as BUILD
from ortune.records import (
    Applied,
    FailureReason,
    FeedRef,
    GpuRun,
    PageSeen,
    Placement,
    ReadBack,
    TrialDone,
)
from ortune.targets.browser.page_job import build_name, is_on
from ortune.targets.browser.remote import browser_name

_MOST_SEEN = 200
"""Limit of the characters of a setting reported by a page."""
_MOST_NS = 10**18
_Count = Annotated[float, msgspec.Meta(ge=0, le=_MOST_NS)]
_Words = Annotated[str, msgspec.Meta(max_length=1000)]
_Whole = Annotated[int, msgspec.Meta(ge=-_MOST_NS, le=_MOST_NS)]
_Natural = Annotated[int, msgspec.Meta(ge=0, le=_MOST_NS)]
_MANY = msgspec.Meta(max_length=100)


class _Adapter(msgspec.Struct, kw_only=True):
    """A GPU adapter as reported by a page."""

    vendor: _Words | None = None
    architecture: _Words | None = None
    description: _Words | None = None
    fallback: bool = False
    float16: bool = False


class _GpuRun(msgspec.Struct, kw_only=True):
    """Parts of a run on the GPU as reported by a page."""

    whole_ns: _Count
    fed_ns: _Count
    device_ns: _Count
    input_bytes: _Natural
    output_bytes: _Natural
    n_runs: _Natural


class PageAbout(msgspec.Struct, kw_only=True):
    """A page's report on itself and its trial, in addition to a worker's report; times in nanoseconds."""

    agent: _Words = ""
    isolated: bool = False
    adapter: _Adapter | None = None
    env: Annotated[dict[_Words, bool | _Whole | float | _Words | None], _MANY] = {}
    files: Annotated[tuple[_Words, ...], _MANY] = ()
    resolution_ns: _Count = 0
    fetch_ns: _Count = 0
    wasm_fetch_ns: _Count = 0
    repeated_turns: _Count = 0
    import_ns: _Count = 0
    block_ns: _Count = 0
    frames_lost: _Count = 0
    gpu_run: _GpuRun | None = None


class PageMessage(msgspec.Struct, kw_only=True):
    """The field of a page's message that messages of workers do not have."""

    about: PageAbout | None = None


def untrue(done: TrialDone, asked: Sequence[FeedRef]) -> tuple[FailureReason, str] | None:
    """Return the reason and message of an impossible value in a page's untrusted report; None if there is none.

    Args:
        done: The report.
        asked: The cases of its job, in order.
    """
    times = [case.latency_ns for case in done.cases]
    runs = sum(map(len, times))
    cases = [(case.case, case.weight) for case in done.cases]
    if cases != [(ref.name, ref.weight) for ref in asked] or done.n_runs != runs:
        return "protocol", "the page reported cases or runs that differ from those requested"
    if any(sum(case.turn_runs) != len(case.latency_ns) for case in done.cases if case.turn_runs):
        return "protocol", "the page reported turns that do not add up to its runs"
    if any(len(case.waits_ns) not in (0, len(case.latency_ns)) for case in done.cases):
        return "protocol", "the page reported more or fewer wait times than runs"
    figures = [done.load_ns, done.cpu_ns, done.wall_ns]
    figures += [n for case in done.cases for n in (case.first_ns, case.warmup_runs, *case.turn_runs)]
    figures += [ns for case in done.cases for ns in (*case.latency_ns, *case.waits_ns)]
    if not all(0 <= n <= _MOST_NS for n in figures):
        return "protocol", "the page reported impossible times"
    if runs and not (done.wall_ns and all(map(any, times))):
        return "unsupported", "the browser's clock is too coarse for this model: its runs measure as 0 ms"
    return None


def placement_of(console: Sequence[str]) -> tuple[Placement, ...]:
    """Return the nodes of each execution provider from ONNX Runtime's log; () if the log does not contain them."""
    placements: dict[str, Placement] = {}
    name = ""
    for line in console:
        placed = _PLACED.search(line)
        if placed is not None:
            name = placed["provider"]
            placements[name] = Placement(provider=name, n_nodes=int(placed["nodes"]), n_parts=0)
            continue
        node = _NODE.search(line) if name else None
        if node is None:
            # Other text ends the list of a provider's nodes; an empty line does not.
            name = name if not line.strip() else ""
            continue
        operators = dict(placements[name].operators)
        operators[node["op"]] = operators.get(node["op"], 0) + 1
        placements[name] = msgspec.structs.replace(placements[name], operators=operators)
    return tuple(placements.values())


def fallbacks_of(console: Sequence[str]) -> tuple[str, ...]:
    """Return operator and name of each node that the log lists as without a kernel of the provider."""
    matches = (_WITHOUT.search(line) for line in console)
    return tuple(dict.fromkeys(f"{match['op']} {match['name']}".strip() for match in matches if match))[
        :MOST_FALLBACKS
    ]


_PLACED = re.compile(
    r"[Nn]ode(?:\(s\)|s) placed on \[(?P<provider>\w+)\]\. Number of nodes: (?P<nodes>\d{1,9})"
)
_NODE = re.compile(r"VerifyEachNodeIsAssignedToAnEp\]\s+(?P<op>\w+) \(")
_WITHOUT = re.compile(
    r"kernel not found in registries for Op type: (?P<op>\w+) node name: (?P<name>[^\x1b]*)"
)
MOST_FALLBACKS = 200


def environment(
    about: PageAbout, console: Sequence[str], sent_bytes: int, network_bps: float, *, compiled: bool
) -> PageSeen:
    """Return the record of a page and its environment, from its report, its console and the files sent to it."""
    adapter = about.adapter or _Adapter()
    words = [adapter.vendor, adapter.architecture, adapter.description]
    run = about.gpu_run
    return PageSeen(
        browser=browser_name(about.agent),
        isolated=about.isolated,
        adapter=" ".join(word for word in words if word),
        software=adapter.fallback,
        float16=adapter.float16,
        resolution_ns=int(about.resolution_ns),
        fetch_ns=int(about.fetch_ns),
        wasm_fetch_ns=int(about.wasm_fetch_ns),
        without_kernel=fallbacks_of(console),
        repeated_turns=int(about.repeated_turns),
        compiled=compiled,
        download_bytes=sent_bytes,
        # 8 bits a byte, 1e9 ns a second.
        download_ns=int(8e9 * sent_bytes / network_bps),
        import_ns=int(about.import_ns),
        block_ns=int(about.block_ns),
        frames_lost=about.frames_lost,
        gpu_run=GpuRun(**msgspec.structs.asdict(run), software=adapter.fallback) if run is not None else None,
    )


def _same(actual: object, asked: object) -> bool:
    if isinstance(asked, bool) or isinstance(actual, bool):
        return is_on(actual) == is_on(asked)
    return str(actual) == str(asked)


def read_back(setting: Applied, about: PageAbout, sent: Sequence[str]) -> ReadBack:
    """Return the verification of a setting in the page."""
    if setting.channel == "web_env":
        value_seen = about.env.get(setting.key)
        return ReadBack(
            knob=setting.knob,
            level="echo",
            ok=_same(value_seen, setting.value),
            seen=str(value_seen)[:_MOST_SEEN],
        )
    if setting.knob == BUILD.name:
        # The browser does not request cached files, and the page does not see files that a proxy worker loads.
        names = sorted({*sent, *about.files})
        loaded = {name: build for name in names if (build := build_name(name))}
        return ReadBack(
            knob=setting.knob,
            level="effect" if loaded else "none",
            ok={*loaded.values()} <= {str(setting.value)},
            seen=", ".join(loaded)[:_MOST_SEEN],
        )
    if setting.channel == "web_page" and setting.key == "isolation":
        isolated = about.isolated
        ok = isolated == is_on(setting.value)
        return ReadBack(knob=setting.knob, level="effect", ok=ok, seen=f"crossOriginIsolated is {isolated}")
    if setting.channel == "web_page":
        return ReadBack(knob=setting.knob, level="effect", ok=True, seen=str(setting.value))
    # Options of sessions and execution providers cannot be read back.
    return ReadBack(knob=setting.knob, level="none", ok=True)
