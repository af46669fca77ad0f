"""What the difference of two profiles shows: what is within noise, who owns it, what the profiler made."""

from __future__ import annotations

import msgspec
import pytest

import golden
import golden_profile
import golden_tune_parts
from facts import facts
from golden_profile import KINDS, profiled
from ortune.records import DifferenceRow, Envelope
from ortune.show import difference_section as sections
from ortune.show.difference_tables import tables as difference_tables
from ortune.show.difference_words import answer as difference_answer
from ortune.show.difference_words import brief as difference_brief
from ortune.show.difference_words import headline as difference_headline
from ortune.show.difference_words import of_eight_bits, operator_change
from ortune.show.document import Table
from ortune.verbs.profile import words as profile_words
from ortune.verbs.tune import why_words as tune_why


def shown(envelope: Envelope, width: int) -> str:
    """The page as plain text at that width, with what supports the answer."""
    return golden.printed(profile_words.document(envelope), width, whole=True)


def flat(text: str) -> str:
    return " ".join(text.split())


def test_difference_comes_first_and_tells_noise_from_change() -> None:
    text = flat(shown(KINDS["difference"], 140))
    facts(text, "slower", "3.20 ms", "5.4 %", "58.9 ms -> 62.1 ms", "+2.70 ms", "+3.70 ms", "/encoder")
    facts(text, "computing, in kernels", "47.70", "50.60", "+2.90", "+2.50", "+3.30")
    facts(text, "only in A", "1 node", "3.40 ms", "c")
    facts(text, "only in B", "8 nodes", "100 us", "n4", "3 more")
    for part in (
        "Cast 3.40 -3.40",
        "3.00x FLOP",
        "1.20 MFLOP",
        "within noise nodes not listed differ by -20.0 us together",
        "5 processes on each side",
        "encoder.onnx 58.9 ms a run",
    ):
        assert part in text, part
    assert text.index("by category") < text.index("where the time goes")
    few = msgspec.structs.replace(golden_profile.difference(), a_processes=2, b_processes=2, low_ns=None)
    text = flat(shown(profiled(against=few), 200))
    assert (
        "noise cannot be separated from change" in text
        and "(too few runs to distinguish it from noise)" in text
    )


def test_intervals_of_one_process_are_said_to_be_those_of_its_runs() -> None:
    one = msgspec.structs.replace(golden_profile.difference(), a_processes=1, b_processes=1)
    text = flat(shown(profiled(against=one), 200))
    facts(text, "two processes", "58.9 ms")
    facts(text, "1 process on each side", "over its runs", "processes may differ")


def test_what_is_within_noise_is_no_difference() -> None:
    found = msgspec.structs.replace(golden_profile.difference(), low_ns=-1e5)
    head = difference_headline(found)
    assert head.startswith(
        "inconclusive: 58.9 ms -> 62.1 ms a run, profiled (95 % interval -100 us to +3.70 ms)"
    )
    # What is new is no noise, whatever its interval.
    facts(head, "2 nodes differ", "/encoder")
    assert "B takes" not in head
    moved = msgspec.structs.replace(found.nodes[2], name="inserted: reshape for new")
    assert "mainly new (only in B, +100 us)" in difference_headline(
        msgspec.structs.replace(found, nodes=(moved, found.nodes[2]))
    )
    one = difference_headline(msgspec.structs.replace(found, nodes=found.nodes[:1]))
    assert "one node differs: /encoder" in one and one.endswith("(3.00x FLOP, +3.00 ms)")
    assert difference_headline(msgspec.structs.replace(found, nodes=())).endswith("+3.70 ms)")


@pytest.mark.parametrize(
    ("plain_ns", "said"),
    [
        (9.2e6, "; without the profiler, B takes 9.20 ms more)"),
        (-1e6, "; without the profiler, B takes 1.00 ms less)"),
        (1e6, "; without the profiler, B takes 1.00 ms more)"),
        (3.9e6, ""),
        (None, ""),
    ],
)
def test_another_difference_than_the_proven_one_is_said(plain_ns: float | None, said: str) -> None:
    found = msgspec.structs.replace(golden_profile.difference(), plain_ns=plain_ns)
    head = difference_headline(found)
    assert said in head and ("without the profiler" in head) == bool(said)


@pytest.mark.parametrize(
    ("ratios", "said"),
    [
        ((2.31, 2.5), "+3.70 ms; profiled runs take 2.3x (A) and 2.5x (B) as long as unprofiled ones); "),
        ((0.8, 0.66), "+3.70 ms; profiled runs take 0.8x (A) and 0.7x (B) as long as unprofiled ones); "),
        ((1.3, 1.1), "+3.70 ms); "),
        ((1.42, 1.38), "+3.70 ms; profiled runs take 1.4x as long as unprofiled ones); "),
        ((None, 2.0), "+3.70 ms; profiled runs take 2.0x (B) as long as unprofiled ones); "),
        ((None, None), "+3.70 ms); "),
    ],
)
def test_how_much_profiling_slowed_both_is_said_where_it_is_much(
    ratios: tuple[float | None, float | None], said: str
) -> None:
    found = golden_profile.difference()
    slow = msgspec.structs.replace(found, a_slowdown_ratio=ratios[0], b_slowdown_ratio=ratios[1])
    assert said in difference_headline(slow)


@pytest.mark.parametrize(
    ("ratios", "plain_ns", "is_hidden"),
    [
        ((68.2, 5.8), -16e3, True),
        ((None, 3.1), None, True),
        ((3.0, 3.0), None, False),
        ((1.1, 1.8), None, True),  # without the profiler B takes less
        ((1.0, 1.6), 2.9e6, False),  # the profiler is not what makes the difference
        ((1.0, 1.6), 1e6, True),
        ((None, None), 1e6, False),
    ],
)
def test_a_difference_that_the_profiler_makes_has_no_reason(
    ratios: tuple[float | None, float | None], plain_ns: float | None, is_hidden: bool
) -> None:
    found = msgspec.structs.replace(
        golden_profile.difference(),
        a_slowdown_ratio=ratios[0],
        b_slowdown_ratio=ratios[1],
        plain_ns=plain_ns,
        gpu=None,
    )
    head, lines = difference_headline(found), difference_brief(found)
    assert ("overhead hides the difference" in head) == is_hidden
    assert (len(lines) == 1) == is_hidden and (not difference_tables(found)) == is_hidden
    assert ("/encoder" not in head) == is_hidden
    if is_hidden:
        assert difference_answer(found).startswith("inconclusive: the profiler's overhead hides")
        assert operator_change(found) == of_eight_bits(found) == ""
        assert "difference: " in tune_why.gain_location(found)
        assert not any(isinstance(block, Table) for block in sections.tables_and_notes(found))
    if ratios == (68.2, 5.8):
        facts(head, "68.2x", "5.8x", "B takes 16.0 us less")


def test_a_difference_without_an_owner_has_a_sentence_too() -> None:
    found = golden_profile.difference()
    replace = msgspec.structs.replace
    assert difference_headline(replace(found, sentence="as given")) == "as given"
    less = replace(found, b_wall_ns=30e6, nodes=())
    assert difference_headline(less).startswith("B takes 28.9 ms (49.1 %) less than A: ")


def test_operators_that_stand_for_the_difference_in_another_s_place_are_counted() -> None:
    found, replace = golden_profile.difference(), msgspec.structs.replace
    assert operator_change(found) == ""
    row = replace(found.nodes[0], op_type="Conv -> ConvInteger + Mul", difference_ns=1.4e6)
    other = replace(found.nodes[0], op_type="Relu -> Clip", difference_ns=-2e6)
    told = operator_change(replace(found, nodes=(row, row, other)), "int8.onnx")
    facts(told, "2 Conv", "ConvInteger + Mul", "int8.onnx", "+2.80 ms")
    assert operator_change(replace(found, nodes=(replace(row, difference_ns=1e5), other))) == "", (
        "too little of it"
    )
    fused = replace(row, op_type="Conv + Relu -> Conv", a_nodes=("conv", "relu"))
    assert operator_change(replace(found, nodes=(fused,))).startswith(
        "2 nodes (Conv + Relu) became Conv in B"
    )


def test_in_short_only_what_changed_is_told() -> None:
    found = golden_profile.difference()
    quiet = msgspec.structs.replace(found.categories[0], low_ns=-1e5)
    lines = difference_brief(msgspec.structs.replace(found, categories=(quiet, *found.categories[1:])))
    assert any(line.startswith("+2.90 ms  computing") for line in difference_brief(found))
    assert not any("computing" in line for line in lines)
    # The clock is not sure of a node that is new, and the graph is.
    assert any("new" in line for line in lines)
    assert len(lines) == 4


def test_operators_of_eight_bits_are_told_with_what_they_took_before() -> None:
    found, replace = golden_profile.difference(), msgspec.structs.replace

    def row(name: str, a_ns: float | None, b_ns: float | None) -> DifferenceRow:
        more = (b_ns or 0.0) - (a_ns or 0.0)
        return replace(found.operators[0], name=name, a_ns=a_ns, b_ns=b_ns, difference_ns=more)

    rows = (
        row("ConvInteger", None, 4e6), row("DynamicQuantizeLinear", None, 2e6), row("MatMulInteger", None, 1e6),
        row("Conv", 2e6, None), row("FusedConv", 1e6, None), row("Relu", 1e5, 2e5), row("QuickGelu", None, 1e6),
    )  # fmt: skip
    both = replace(found, operators=rows)
    expected = "ConvInteger instead of Conv, 3.00 ms -> 4.00 ms; quantizing itself +2.00 ms (profiled)"
    assert of_eight_bits(both, "int8.onnx") == f"8-bit operators in int8.onnx: {expected}"
    assert of_eight_bits(found) == ""
    turned = tuple(row(each.name, each.b_ns, each.a_ns) for each in rows)
    assert of_eight_bits(replace(found, operators=turned)).startswith(
        "8-bit operators in A: ConvInteger instead of Conv, 4"
    )
    mixed = replace(found.nodes[0], op_type="Conv + Relu -> ConvInteger + Mul", difference_ns=5e6)
    assert operator_change(replace(both, nodes=(mixed,))) == ""


@pytest.mark.parametrize(
    ("b_wall_ns", "told"), [(11.5e6, "no more than noise"), (12.4e6, "do not show the gain")]
)
def test_nodes_that_differ_are_a_reason_where_whole_runs_do_not(b_wall_ns: float, told: str) -> None:
    found = msgspec.structs.replace(
        golden_tune_parts.gained(),
        b_wall_ns=b_wall_ns,
        low_ns=-2.4e6 if b_wall_ns < 12e6 else 0.1e6,
        high_ns=1.2e6,
    )
    text = tune_why.gain_location(found)
    facts(text, "Why", told, "one node takes less: /layer/MatMul (-1.90 ms)")
    noise = tuple(row for row in found.nodes if row.name == "/layer/Add")
    facts(tune_why.gain_location(msgspec.structs.replace(found, nodes=noise)), "reason is unknown", told)
    more = tuple(msgspec.structs.replace(r, difference_ns=1e6, low_ns=5e5, high_ns=2e6) for r in found.nodes)
    facts(
        tune_why.gain_location(msgspec.structs.replace(found, nodes=more)),
        "reason is unknown",
        "2 nodes that differ",
    )
