"""A first look as text and Markdown."""

from __future__ import annotations

import msgspec
import pytest

import golden
from facts import facts
from golden_answers import CPU, OPERATORS, looked
from ortune.records import (
    FUNCTIONAL_ONLY,
    Envelope,
    ErrorInfo,
    Finding,
    OperatorProfile,
    OperatorTime,
    Placement,
    Plan,
    ProviderSpec,
)
from ortune.show import markdown
from ortune.show.html import pages
from ortune.show.placement_words import placed_or_why
from ortune.verbs.look import words
from ortune.verbs.look.result import LookTiming, RepeatedRegion


def shown(envelope: Envelope, width: int) -> str:
    """The page as plain text at that width."""
    return golden.printed(words.document(envelope), width)


@pytest.mark.parametrize("width", [80, 140])
def test_terminal_fits_its_width_and_loses_nothing(width: int) -> None:
    text = shown(looked(), width)
    assert max(len(line) for line in text.splitlines()) <= width
    flat = " ".join(text.split())
    facts(flat, "1.17 M", "4.46 MiB", "85 %", "15 %")
    facts(flat, "263", "89 Add", "86 Mul", "62 Conv", "24 Clip", "1 Relu")
    facts(flat, "p50", "59.0 ms", "50 % of operator time", "62 nodes")
    facts(flat, "146 ms", "186 MiB", "100 GFLOP/s", "1.31.1")
    facts(flat, "1 %", "80.0 us", "1 node")
    for part in (
        "4.53 MiB, opset 12, com.microsoft 1, IR version 8, made by pytorch 2.1",
        "5.90 GFLOP a run",
        "x 1x3x640x640 float (image; H, W guessed)",
        "top operators by share of operator time (profiled: 62.0 ms, unprofiled 59.0 ms)",
        "Conv 50 % 28.2 ms 62 nodes",
        "-> --dim seq=N",
        "2 more: -v lists them",
        "ortune tune det.onnx",
    ):
        assert part in flat, part


def test_a_page_fits_a_terminal() -> None:
    usual = looked()
    found = usual.result.findings[:3]
    assert len(shown(looked(findings=found), 80).splitlines()) <= 25


def test_names_are_neutral() -> None:
    name = "[red]|<script>\n### x\x1b[31m"
    operator = OperatorTime(op_type=name, n_nodes=1, time_ns=1.0, share_ratio=1.0)
    envelope = looked(
        findings=(Finding(code="SHP001", what=name),),
        inputs=name,
        next_commands=(f"ortune tune '{name}'",),
        operators={name: 1},
        profile=OperatorProfile(n_runs=1, run_ns=1.0, operators=(operator,)),
    )
    text = shown(envelope, 140)
    assert text.count("[red]|<script>\\n### x\\x1b[31m") == 6
    assert "\x1b" not in text
    page = markdown.render(words.document(envelope))
    assert "\n### x" not in page
    assert "\x1b" not in page
    assert "<script>" not in page.replace("\\<script\\>", "").split("### next")[0]


def test_a_model_that_did_not_run_shows_what_the_file_says() -> None:
    error = ErrorInfo(code="model", what="no kernel for Foo", do="--custom-ops LIB")
    envelope = looked(error, timing=None, profile=None, flops=None, inputs="", next_commands=())
    text = shown(envelope, 80)
    assert "1.17 M parameters" in text
    for absent in ("latency", "observation", "top operators", "next", "work"):
        assert absent not in text
    assert "no kernel for Foo" in markdown.render(words.document(envelope))


@pytest.mark.parametrize(
    ("share", "source"), [(0.92, "profile"), (0.92, "cost"), (0.05, "profile"), (None, "cost")]
)
def test_equal_layers_are_named_with_their_share_and_dominate_the_headline(
    share: float | None, source: str
) -> None:
    layers = RepeatedRegion(
        copies=12, n_nodes=58, operators={"MatMul": 96, "Add": 72}, share_ratio=share, share_from=source
    )
    envelope = looked(regions=(layers,))
    text = " ".join(shown(envelope, 140).split())
    named = share is None or share > 0.1
    assert ("12 repeated blocks of 58 nodes: 96 MatMul, 72 Add" in text) == named
    measured = named and source == "profile"
    assert (
        "92 % of operator time in 12 repeated blocks of 58 nodes" in words.headline(envelope.result)
    ) == measured
    assert ("92 % of the estimated operations" in text) == (share == 0.92 and source == "cost")


def test_groups_of_equal_layers_share_a_row() -> None:
    """As an encoder and a decoder that have two layers of one size each."""
    encoder, decoder = (
        RepeatedRegion(
            copies=2,
            n_nodes=3,
            first=first,
            operators={"Add": 4, "MatMul": 2},
            share_ratio=share,
            share_from="cost",
        )
        for first, share in (("a", 0.5), ("b", 0.25))
    )
    other = msgspec.structs.replace(encoder, copies=3, first="c", share_ratio=0.2)
    rows = words.structure(looked(regions=(encoder, decoder, other)).result)
    assert [text for _, text in rows] == [
        "2 groups of 2 repeated blocks of 3 nodes: 8 Add, 4 MatMul in all; 75 % of the estimated operations",
        "3 repeated blocks of 3 nodes: 4 Add, 2 MatMul; 20 % of the estimated operations",
    ]


def test_what_was_left_out_and_what_was_not_warmed_up_is_said() -> None:
    timing = LookTiming(latency_ns=5e9, n_runs=0, warmed_up=False, first_run_ns=5e9, load_ns=3e9)
    result = looked(timing=timing, profile=None, left_out=("the profile (about 40 s more)",)).result
    assert words.headline(result) == "5.00 s a run (the first run, not warmed up; a single observation)"
    assert words.left_out(result) == "skipped: the profile (about 40 s more)"


@pytest.mark.parametrize(
    ("slowdown", "said"),
    [
        (None, ""),
        (0.9, ""),
        (1.02, ""),
        (1.2, ": 62.0 ms, unprofiled 51.7 ms)"),
        (1.4, ": 62.0 ms, unprofiled 44.3 ms, so shares are rough)"),
        (5.62, ": 62.0 ms, unprofiled 11.0 ms, so shares are rough)"),
    ],
)
def test_how_much_the_profiler_disturbed_the_run(slowdown: float | None, said: str) -> None:
    profile = msgspec.structs.replace(looked().result.profile, slowdown_ratio=slowdown)
    title = words.profile_title(looked(profile=profile).result)
    assert said in title
    assert bool(said) == ("unprofiled" in title)


def test_a_profile_on_several_providers_names_them() -> None:
    rows = tuple(
        OperatorTime(op_type="Conv", provider=p, n_nodes=1, time_ns=1.0, share_ratio=0.5)
        for p in ("CUDAExecutionProvider", CPU)
    )
    result = looked(profile=OperatorProfile(n_runs=3, run_ns=2.0, operators=rows, complete=False)).result
    assert [row[0] for row in words.operator_rows(result)] == ["Conv on CUDA", "Conv on CPU"]
    assert words.profile_title(result).endswith("the profile was truncated")


def test_another_plan_than_the_default_is_said() -> None:
    rows = words.timing(looked(plan=Plan(settings={"intra_op_num_threads": 1})).result)
    assert rows[-1] == ("with", "intra_op_num_threads=1")


def test_markdown_has_the_table() -> None:
    page = markdown.render(words.document(looked()))
    assert "| Conv | 50 % | 28.2 ms | 62 nodes |" in page
    assert "    ortune tune det.onnx" in page


def test_where_nodes_ran_is_said_or_why_it_is_unknown() -> None:
    on_openvino = Plan(providers=(ProviderSpec(name="OpenVINOExecutionProvider"),))
    (why,) = placed_or_why((), on_openvino, "onnxruntime-openvino 1.23.0")
    facts(why, "unknown", "onnxruntime-openvino 1.23.0", "1.24")
    assert placed_or_why((), Plan(), "onnxruntime 1.22.1") == []
    part = Placement(provider="OpenVINOExecutionProvider", n_nodes=3, n_parts=1, operators={"Add": 3})
    assert placed_or_why((part,), on_openvino, "") == ["OpenVINO runs all 3 nodes"]


def test_kernels_of_a_gpu_are_no_parts_of_a_graph() -> None:
    cpu = Placement(provider=CPU, n_nodes=1, n_parts=1, operators={"IsNaN": 1})
    for provider, said in (
        ("WebGpuExecutionProvider", "WebGpu runs 3 of 4 nodes; 1 stayed on CPU: 1 IsNaN"),
        ("QNNExecutionProvider", "QNN runs 3 of 4 nodes in 2 parts; 1 stayed on CPU: 1 IsNaN"),
    ):
        n_parts = 3 if provider.startswith("WebGpu") else 2
        part = Placement(provider=provider, n_nodes=3, n_parts=n_parts, operators={"Add": 3})
        assert placed_or_why((part, cpu), Plan(providers=(ProviderSpec(name=provider),)), "") == [said]


def test_no_time_of_an_emulated_device_is_shown() -> None:
    finding = Finding(code=FUNCTIONAL_ONLY, what="functional only: the CPU emulates the device of QNN")
    plan = Plan(providers=(ProviderSpec(name="QNNExecutionProvider"),))
    timing = LookTiming(
        latency_ns=3e6, n_runs=0, first_run_ns=3e6, load_ns=5_000_000, warmed_up=False, flops_per_s=1e9
    )
    text = markdown.render(
        words.document(looked(timing=timing, profile=None, plan=plan, findings=(finding,)))
    )
    facts(text, "functional only", "QNN", "no speed is shown")
    assert " ms" not in text and "FLOP/s" not in text


def test_a_model_that_does_not_run_has_its_reason_once_above_all_else() -> None:
    error = ErrorInfo(code="usage", what="Reshape works only with batch=8", where="", do="")
    text = shown(looked(error, timing=None, profile=None, findings=()), 100)
    assert text.splitlines()[0].startswith("not run: Reshape works only with batch=8")
    assert text.count("only with batch=8") == 1


def test_one_parameter_is_singular() -> None:
    text = shown(looked(parameters=1, parameter_bytes=8, weight_types={"int64": 8}), 100)
    assert "1 parameter, 8 B" in text


def test_the_page_has_the_time_in_large_letters_and_a_bar_for_each_operator() -> None:
    page = pages.render(looked())
    facts(page, "<b>59.0 ms</b>", "a run", OPERATORS[0][0])
    assert page.count('class="box time sure"') == min(words.TOP_OPERATORS, len(OPERATORS))
    unprofiled = pages.render(looked(profile=None))
    facts(unprofiled, "in file, by operator", "Add", "89", 'class="box time sure"', "Conv")
    untimed = pages.render(looked(timing=None, profile=None))
    assert "Not timed" in untimed


def test_the_settings_that_a_model_needs_are_in_its_headline() -> None:
    result = looked(plan=Plan(settings={"graph_optimization_level": "disable"})).result
    facts(words.headline(result), "59.0 ms", "graph_optimization_level=disable")
