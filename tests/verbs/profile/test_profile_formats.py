"""A profile as text and Markdown."""

from __future__ import annotations

import math
import re

import msgspec
import pytest

import golden
import golden_profile
from facts import facts
from golden_profile import HOSTILE, KINDS, profiled
from ortune.records import Envelope, Finding, MemoryOwner
from ortune.show import markdown, profile_nodes
from ortune.show.profile_tables import apportion, unit_of
from ortune.verbs.profile import memory_words as profile_memory
from ortune.verbs.profile import words as profile_words


def shown(envelope: Envelope, width: int) -> str:
    """The page as plain text at that width, with what supports the answer."""
    return golden.printed(profile_words.document(envelope), width, whole=True)


def flat(text: str) -> str:
    return " ".join(text.split())


@pytest.mark.parametrize("kind", sorted(KINDS))
@pytest.mark.parametrize("width", [80, 140])
def test_terminal_fits_its_width(kind: str, width: int) -> None:
    assert golden.widest(profile_words.document(KINDS[kind]), width) <= width


def test_first_comes_the_answer() -> None:
    first = flat(shown(profiled(), 140))
    assert first.startswith(
        "58.9 ms a run, profiled (mean of 24 steady runs): 81.0 % computing, in kernels; the largest node is "
        "/encoder/layer.0/attention/MatMul_0 (17.2 %) findings"
    )


def test_a_node_that_its_start_bounds_has_no_ratio_to_its_roofline() -> None:
    envelope = profiled()
    nodes = [
        msgspec.structs.replace(n, bound="overhead", fast_ns=5e6, floor_ns=1.0) for n in envelope.result.nodes
    ]
    result = msgspec.structs.replace(envelope.result, nodes=tuple(nodes))
    table = profile_nodes.nodes(result)
    heads = [column.head for column in table.columns]
    row = dict(zip(heads, (cell.text for cell in table.rows[0]), strict=True))
    assert (row["x roofline"], row["bound"]) == ("", "overhead")


def test_everything_that_was_found_is_said() -> None:
    text = flat(shown(profiled(), 140))
    facts(text, "FusedConv", "fused", "Relu_1", "fused_fusedconv_1")
    facts(
        text,
        "2 runs",
        "p90",
        "p10",
        "1.11",
        "2 runs",
        "+18 %",
        "61 %",
        "/encoder/MatMul_3",
        "21 %",
        "overhead",
    )
    facts(
        text,
        "184 MiB",
        "weights",
        "90 MiB",
        "values 50 MiB",
        "/encoder/layer.3/attention/MatMul_32",
        "/encoder/l....3/attention/scores",
        "48 MiB",
        "1 KiB",
        "44 MiB",
        "4 MiB",
        "256 MiB",
    )
    facts(text, "4 nodes", "fused_cast_35", "reorder_1", "reorder_2", "1 more")
    for part in (
        "computing, in kernels 47.70 81.0",
        "waiting for other threads 5.13 8.7",
        "the run 58.90 100.0",
        "nothing in: copies between devices, waiting for the device, control flow",
        "MatMul 30.0 ms 50.9 % 9",
        "nodes (the most expensive 5 of 36 in the optimised graph) node time share x roofline bound wait",
        "12 %",
        "encoder/layer.0 22.4 ms 38.0 % 9",
        "- Cast takes 5.8 % of the run",
        "runs take 1.08x the time of those without it",
        "written chrome: /tmp/out.trace.json",
    ):
        assert part in text, part
    assert "/encoder/Gelu_2" not in text


def test_nodes_are_called_as_the_user_calls_them_everywhere() -> None:
    result = golden_profile.usual()
    replace = msgspec.structs.replace
    first = replace(result.nodes[0], name="r1_nchwc", originals=("conv1", "relu1"))
    moved = replace(
        result.nodes[3], name="ReorderInput_token_3", op_type="ReorderInput", originals=(),
        purpose="into blocked layout for conv1", bound="overhead",
    )  # fmt: skip
    assert result.memory is not None and result.variance is not None
    found = replace(
        result,
        nodes=(first, *result.nodes[1:3], moved),
        memory=replace(
            result.memory,
            source="liveness",
            peak_node="r1_nchwc",
            at_peak=(("r1_nchwc", 2048),),
            owners=(MemoryOwner(kind="value", name="r1_nchwc", bytes=2048),),
            total_bytes=2048,
        ),
        variance=replace(result.variance, owners=(replace(result.variance.owners[0], name="r1_nchwc"),)),
    )
    text = flat(shown(profiled(found), 200))
    facts(text, "2 KiB", "values 2 KiB", "conv1", "conv1 2 KiB")
    for part in (
        "61 % of the extra time in conv1",
        "MatMul fused with relu1 as r1_nchwc",
        "estimated from sizes and lifetimes, because the profile has no allocator figures",
        "inserted: into blocked layout for conv1",
    ):
        assert part in text, part
    assert text.count("r1_nchwc") == 1
    assert re.search(r"ReorderInput_token_3 \S+ ms .* overhead", text)


def test_how_nodes_met_is_said_where_it_is_not_known_what_they_stand_for() -> None:
    found = msgspec.structs.replace(golden_profile.difference(), by_name=12, by_order=3, rest_ns=-4e5)
    text = flat(shown(profiled(against=found), 200))
    matched = (
        "12 by name, 3 by operator and order only, which is a guess: their origin in the model is unknown"
    )
    assert matched in text
    assert "by -400 us together" in text
    one = msgspec.structs.replace(found, by_name=1, by_order=0)
    assert "1 by name: its origin" in flat(shown(profiled(against=one), 200))
    assert "matched" not in shown(KINDS["difference"], 200)


def test_the_headline_has_the_share_that_the_table_has() -> None:
    result = profiled().result
    thirds = tuple(
        msgspec.structs.replace(c, ns=result.wall_ns / 3 if i < 3 else 0.0)
        for i, c in enumerate(result.categories)
    )
    result = msgspec.structs.replace(result, categories=thirds)
    shares = [part for name, _, _, part in profile_nodes.category_rows(result) if name is not None]
    assert sorted(shares) == ["33.3", "33.3", "33.4"], "they add up"
    first = next(part for name, _, _, part in profile_nodes.category_rows(result) if name == thirds[0].name)
    assert f": {first} % " in profile_words.run_sentence(result)


@pytest.mark.parametrize("kind", sorted(KINDS))
def test_shares_and_times_add_up_as_they_are_shown(kind: str) -> None:
    rows = profile_nodes.category_rows(KINDS[kind].result)
    if not rows:
        assert kind == "bare"
        return
    *parts, total = rows
    assert total[0] is None and total[3] == "100.0"
    assert math.isclose(sum(float(part[3]) for part in parts), 100.0, abs_tol=1e-9)
    assert math.isclose(sum(float(part[2]) for part in parts), float(total[2]), abs_tol=1e-9)


@pytest.mark.parametrize(
    ("parts", "digits"),
    [
        ([33.333, 33.333, 33.334], 1),
        ([0.04] * 9 + [99.64], 1),
        ([103.26, -3.26], 1),
        ([1 / 3] * 3, 0),
        ([], 1),
    ],
)
def test_apportioned_parts_sum_to_the_rounded_whole(parts: list[float], digits: int) -> None:
    found = apportion(parts, digits)
    assert math.isclose(sum(found), round(sum(parts), digits), abs_tol=1e-9)
    assert all(abs(a - b) < 10**-digits for a, b in zip(found, parts, strict=True))


@pytest.mark.parametrize(
    ("ns", "text"),
    [(58.9e6, "58.90 ms"), (589e6, "589.0 ms"), (5.89e3, "5.890 us"), (4.2e10, "42.00 s"), (0, "0.000 ns")],
)
def test_units_give_four_digits(ns: float, text: str) -> None:
    unit = unit_of(ns)
    assert f"{unit.show(ns)} {unit.name}" == text


def test_findings_are_told_with_their_codes() -> None:
    found = Finding(code="THR002", what="a node waits", fix="fewer threads")
    assert profile_words.findings(msgspec.structs.replace(golden_profile.usual(), stands_out=(found,))) == [
        "THR002 a node waits -> fewer threads"
    ]


def test_what_says_nothing_is_left_out() -> None:
    text = shown(KINDS["plain-trace"], 80)
    for part in ("x roofline", "bound", "wait ", "layers", "memory", "profiling", "slowest 2 runs"):
        assert part not in text
    bare = flat(shown(KINDS["bare"], 80))
    assert bare == (
        "the trace is damaged: 1 event is left out: it cannot be read, or its times are impossible "
        "the trace was truncated; the readable part is shown "
        "no run was recorded completely, so there are no times per run trace no run was recorded completely"
    )


def test_long_names_lose_their_middle_and_keep_their_end() -> None:
    text = shown(KINDS["difference"], 80)
    line = next(line for line in text.splitlines() if "on/MatMul_0" in line and "+2.80" in line)
    assert "/enco" in line and "..." in line and "+2.80 to +3.20" in line


@pytest.mark.parametrize("number", range(len(HOSTILE)))
def test_names_are_shown_as_they_are(number: int) -> None:
    name, envelope = HOSTILE[number], KINDS[f"hostile-{number}"]
    text = shown(envelope, 400)
    visible = "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in name)
    start = visible[:12]
    assert text.count(start) > 20
    assert "\x1b" not in text and "\u202e" not in text
    page = markdown.render(profile_words.document(envelope))
    page = "\n".join(line for line in page.splitlines() if not line.startswith("    "))
    assert "<script" not in page.replace("\\<", "") and "<img" not in page.replace("\\<", "")
    assert "\x1b" not in page and "\u202e" not in page


def test_markdown_says_the_same_in_tables() -> None:
    page = markdown.render(profile_words.document(KINDS["difference"]))
    facts(page, "computing, in kernels", "47.70", "50.60", "+2.90", "+2.50", "+3.30")
    for part in (
        "### ortune profile: encoder.onnx",
        "| computing, in kernels | 47.70 | 81.0 |",
        "| the run | 58.90 | 100.0 |",
        "| MatMul | 30.0 ms | 50.9 % | 9 |",
        "- only in A: 1 node, 3.40 ms: c",
        "#### findings\n\n- Cast takes 5.8 % of the run",
    ):
        assert part in page, part
    tables = [line for line in page.splitlines() if line.startswith("|")]
    for line in tables:
        assert line.endswith("|")
    assert (
        "its times are impossible*\n\n*the trace was truncated; the readable part is shown*\n\n"
        "### ortune profile: cut.json\n\n**no run was recorded"
    ) in markdown.render(profile_words.document(KINDS["bare"]))


def test_the_largest_layers_are_the_first_level_that_tells_something() -> None:
    listing = profile_nodes.layers(golden_profile.usual())
    assert [row[0].text for row in listing.rows] == [f"encoder/layer.{n}" for n in range(4)]
    assert profile_nodes.layers(golden_profile.bare()).rows == ()


def test_too_few_runs_name_no_owner_and_what_took_less_is_said() -> None:
    result = golden_profile.usual()
    replace = msgspec.structs.replace
    assert result.variance is not None and result.variance.extra_ns is not None
    few = replace(result.variance, slow_runs=0, usual_ns=None, extra_ns=None, owners=())
    assert "24 runs are too few to explain" in profile_words.variance(replace(result, variance=few))
    less = replace(result.variance, less_ns=result.variance.extra_ns)
    assert profile_words.variance(replace(result, variance=less)).endswith("10.6 ms less)")
    assert "less" not in profile_words.variance(result)


def test_the_run_whose_memory_is_shown_is_named() -> None:
    result = golden_profile.usual()
    assert result.memory is not None
    first = msgspec.structs.replace(result.memory, run=0)
    assert "(run 1, allocator figures" in profile_memory.memory_line(
        msgspec.structs.replace(result, memory=first)
    )
    # One that was stored before all was summed tells what the allocator did.
    old = msgspec.structs.replace(first, owners=(), total_bytes=None, resident_bytes=None)
    line = profile_memory.memory_line(msgspec.structs.replace(result, memory=old))
    assert line.startswith("141 MiB at most (at /encoder") and "KiB); the arena holds" in line


def test_the_first_screen_has_operators_beside_the_top_nodes() -> None:
    envelope = profiled()
    text = flat(golden.printed(profile_words.document(envelope), 120))
    assert "nodes (the most expensive" in text
    first = envelope.result.operators[0]
    assert f"{first.op_type} " in text[text.index("operators ") :]
    assert len(profile_nodes.operators(envelope.result).rows) <= profile_nodes.TOP_OPERATORS + 1 == 11
