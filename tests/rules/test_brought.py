"""What the same fix brought elsewhere: from the published tables, told as an estimate until it is measured."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import Literal

import msgspec
import numpy as np
import onnx
import onnx.parser
import pytest

import ortune
from onnx_text import assemble, saved
from ortune import rules
from ortune.graph.model.open import open_model
from ortune.records import (
    Category,
    Comparison,
    Finding,
    Plan,
    ProfiledNode,
    ProfileResult,
    RewriteSpec,
    TraceInfo,
)
from ortune.rules import Facts, _concerned, expected_gains
from ortune.show import finding_words
from ortune.show.document import Line
from ortune.verbs.check import words as check_words

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tools"))

import make_brought  # noqa: E402


def mended(code: str, rewrite: str, kind: expected_gains.ModelKind | None = None, **known: object) -> Finding:
    """A finding whose fix is a rewrite, in a model that is like the one that the table is of."""
    finding = Finding(code=code, what="a", plan=Plan(rewrites=(RewriteSpec(name=rewrite),)))
    finding = msgspec.structs.replace(finding, **known)
    return msgspec.structs.replace(finding, brought=expected_gains.similar_gains(finding, kind or LIKE))


LIKE = expected_gains.measured().models["ppocrv4-rec"]


def test_the_table_is_what_the_results_say() -> None:
    written = expected_gains.TABLE.read_text(encoding="utf-8")
    results = make_brought.RESULTS.read_text(encoding="utf-8")
    assert written == make_brought.table(results), "run: python tools/make_brought.py"


def test_a_later_measurement_of_the_same_counts_and_an_unknown_change_does_not() -> None:
    lines = (
        "| model | winner | default | winner's | gain, verified on fresh blocks | outputs |",
        "|---|---|---|---|---|---|",
        "| magika | gelu, hard-swish | 2 ms | 1 ms | 2.00x (1.50-3.00) | |",
        "| magika, again | the same | | | 1.60x (1.25-2.00) | |",
        "",
        "| model | rewrite | time against the original | outputs |",
        "|---|---|---|---|",
        "| magika | nothing known | 0.5 (0.4-0.6) | |",
        "| one made for it | gelu | 0.5 (0.4-0.6) | |",
    )
    found = msgspec.json.decode(make_brought.table("\n".join(lines)), type=expected_gains.MeasuredGains)
    assert found.rewrites.keys() == {"gelu", "hard-swish"}
    (each,) = found.rewrites["gelu"]
    assert (each.model, each.ratio, each.ratio_low, each.ratio_high) == ("magika", 0.625, 0.5, 0.8)
    assert each.others == ("hard-swish",) and each.proven


def test_what_a_fix_brought_is_told_of_models_alike_until_it_is_measured() -> None:
    finding = mended("GRA017", "hard-swish")
    told = finding_words.estimate(finding)
    assert told.startswith(
        "estimate: 1.38x (1.24-1.40x) measured on a similar model (ppocrv4-rec), together with "
    )
    measured = Comparison(
        statistic="median", ratio=1.0, ratio_low=0.9, ratio_high=1.1, level=0.95, method="wilcoxon", n_blocks=9,
        smallest_effect_ratio=None, phase="confirm", verdict="inconclusive",
    )  # fmt: skip
    assert finding_words.estimate(msgspec.structs.replace(finding, verified=measured)) == ""
    assert expected_gains.similar_gains(Finding(code="GRA017", what="a", fix="by hand"), LIKE) == ()


@pytest.mark.parametrize("other", ["size", "kind", "both"])
def test_a_model_of_another_kind_or_size_has_no_estimate(other: str) -> None:
    kind = LIKE
    if other in ("size", "both"):
        kind = msgspec.structs.replace(kind, parameters=2 * kind.parameters)
    if other in ("kind", "both"):
        kind = msgspec.structs.replace(kind, operators={"LSTM": 2, "MatMul": 3})
    assert finding_words.estimate(mended("GRA017", "hard-swish", kind)) == ""
    assert not expected_gains.are_similar(LIKE, kind) and expected_gains.are_similar(LIKE, LIKE)


@pytest.mark.parametrize(
    ("share", "least", "source", "words"),
    [
        (0.5, 0.5, "profile", "estimate: at most 2.00x, 1.38x (1.24-1.40x) measured on a similar model (ppocrv4-rec)"),
        (0.3, 0.5, "profile", "estimate: at most 1.43x (2.00x with the nodes that could not be mapped)"),
        (0.15, 0.55, "cost", "estimate: at most about 1.18x (1.82x if these nodes take 3 times their"),
        (0.3, 0.1, "cost", "estimate: 1.38x"),  # nothing worth saying bounds it
        (None, None, "profile", "estimate: 1.38x"),
    ],
)  # fmt: skip
def test_the_share_bounds_what_a_fix_brings(
    share: float | None, least: float | None, source: Literal["profile", "cost"], words: str
) -> None:
    finding = mended("GRA017", "hard-swish", share_ratio=share, least_ratio=least, share_from=source)
    assert finding_words.estimate(finding).startswith(words)


def test_what_brought_more_elsewhere_than_the_share_allows_is_no_estimate() -> None:
    finding = mended("GRA017", "hard-swish", share_ratio=0.1, least_ratio=0.9)
    assert finding_words.estimate(finding) == "estimate: at most 1.11x"


SPELLED_OUT = """
<ir_version: 8, opset_import: ["" : 17]>
spelled (float[64,64] x) => (float[64,64] y) <float[64,64] w = {WEIGHTS}>
{
    three = Constant <value = float {3.0}> ()
    zero = Constant <value = float {0.0}> ()
    six = Constant <value = float {6.0}> ()
    [product] h = MatMul (x, w)
    [sum] a = Add (h, three)
    [clip] c = Clip (a, zero, six)
    [times] m = Mul (h, c)
    [over] s = Div (m, six)
    [last] y = MatMul (s, w)
}
""".replace("WEIGHTS", ", ".join(["0.1"] * 4096))


@pytest.mark.parametrize("names", ["", "  ", "same", "product"])
def test_numbers_do_not_depend_on_the_names_of_nodes(tmp_path: Path, names: str) -> None:
    model = onnx.parser.parse_model(SPELLED_OUT)
    onnx.save(model, tmp_path / "named.onnx")
    for node in model.graph.node:
        node.name = names
    onnx.save(model, tmp_path / "other.onnx")
    found = [
        ortune.check(str(tmp_path / f"{each}.onnx")).result.models[0].findings for each in ("named", "other")
    ]
    (named,), (other,) = ([f for f in some if f.code == "GRA017"] for some in found)
    assert (named.share_ratio, named.least_ratio) == (other.share_ratio, other.least_ratio)
    # Four nodes of 4,096 elements beside two products: all that the rewrite takes away counts, not the one it names.
    assert named.where == ("over",) and named.share_ratio is not None and named.share_ratio > 0.2
    assert other.where and all(other.where)


def test_the_bound_is_that_of_the_share_on_the_same_line(tmp_path: Path) -> None:
    model = onnx.parser.parse_model(SPELLED_OUT)
    for number in range(20):  # more products: the part that the fix changes becomes a smaller one
        more = onnx.helper.make_node("MatMul", [model.graph.node[-1].input[0], "w"], [f"h{number}"])
        model.graph.node.insert(len(model.graph.node) - 1, more)
        model.graph.node[-1].input[0] = f"h{number}"
    onnx.save(model, tmp_path / "m.onnx")
    (line,) = (
        block.text
        for block in check_words.document(ortune.check(str(tmp_path / "m.onnx"))).blocks
        if isinstance(block, Line) and "GRA017" in block.text
    )
    figures = re.search(
        r"; (\d+) % of the estimated work; estimate: at most about ([\d.]+)x "
        r"\(([\d.]+)x if these nodes take 3 times their estimated share\)$",
        line,
    )
    assert figures is not None
    share, bound, largest = (float(text) for text in figures.groups())
    assert bound == pytest.approx(1 / (1 - share / 100), abs=0.02)
    assert largest == pytest.approx(1 / (1 - 3 * share / 100), rel=0.1)


def test_a_node_named_like_a_weight_or_one_in_a_body_is_not_taken_for_it(tmp_path: Path) -> None:
    model = onnx.parser.parse_model(SPELLED_OUT)
    model.graph.node[3].name = "w"
    onnx.save(model, tmp_path / "m.onnx")
    opened = open_model(tmp_path / "m.onnx").ir
    about_a_weight = Finding(code="MEM001", what="a", where=("w",))
    assert _concerned.named_nodes(about_a_weight, opened) == []
    assert [
        n.op_type for n in _concerned.named_nodes(Finding(code="A", what="a", where=("last",)), opened)
    ] == ["MatMul"]


@pytest.mark.parametrize("names", [("a", "b"), ("", "")])
def test_the_share_of_a_run_is_that_of_the_nodes_and_not_of_a_match_of_empty_names(
    tmp_path: Path, names: tuple[str, str]
) -> None:
    model = onnx.parser.parse_model("""
        <ir_version: 8, opset_import: ["" : 17]>
        two (float[1,4] x, float[4,4] w) => (float[1,4] y) <float[4,4] w = {1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1}>
        { h = MatMul (x, w)  y = Relu (h) }
    """)
    for node, name in zip(model.graph.node, names, strict=True):
        node.name = name
    onnx.save(model, tmp_path / "m.onnx")

    def finding(*nodes: ProfiledNode) -> Finding:
        categories = (Category(name="kernels", ns=100.0),)
        info = TraceInfo(path="", format="ort-json", n_events=1, n_runs=1)
        run = ProfileResult(trace=info, n_runs=1, wall_ns=100.0, categories=categories, nodes=nodes)
        facts = Facts(model=open_model(tmp_path / "m.onnx"), profile=run)
        (found,) = (each for each in rules.findings(facts) if each.code == "GRA002")
        return found

    def ran(op: str, share: float, original: str) -> ProfiledNode:
        return ProfiledNode(
            name=f"{op}_7", op_type=op, provider="", category="kernels", time_ns=100 * share, share_ratio=share,
            calls=1.0, originals=(original,) if original else (),
        )  # fmt: skip

    known = finding(ran("MatMul", 0.3, names[0] or "MatMul#0"), ran("Relu", 0.6, names[1] or "Relu#1"))
    assert known.share_ratio == pytest.approx(0.3) and "take 30 % of the run" in known.evidence
    assert known.least_ratio is None, "once they are constant, nodes that do not read them can be fused too"
    unknown = finding(ran("MatMul", 0.3, ""), ran("Relu", 0.6, ""))
    assert unknown.share_ratio is None and "0 %" not in unknown.evidence


def test_denormals_are_counted_and_not_sampled(tmp_path: Path) -> None:
    weights = np.ones(30_000, np.float32)
    weights[2_000:8_610] = 1e-40  # where no thousand numbers of the begin, the middle or the end are
    tensor = onnx.numpy_helper.from_array(weights.reshape(300, 100), "w")
    sides = [onnx.helper.make_tensor_value_info(n, 1, [1, s]) for n, s in (("x", 300), ("y", 100))]
    onnx.save(
        assemble([onnx.helper.make_node("MatMul", ["x", "w"], ["y"])], sides[:1], sides[1:], [tensor]),
        tmp_path / "m.onnx",
    )
    result = ortune.check(str(tmp_path / "m.onnx"), preview=True).result
    (finding,) = (f for f in result.models[0].findings if f.code == "PRC005")
    assert finding.what.startswith("1 weight ") and "up to 22 % " in finding.what and finding.where == ("w",)


def test_what_seldom_pays_is_said_by_those_who_measure_its_fix_alone(tmp_path: Path) -> None:
    rule = rules.find_rule("GRA021")
    assert rule.bad is not None
    onnx.save(rule.bad(), tmp_path / "m.onnx")
    facts = Facts(model=open_model(tmp_path / "m.onnx"))
    assert rule.findings(facts)
    assert rule not in rules.Selection().rules() and rule in rules.Selection(measured=True).rules()
    for measured in (False, True):  # there is no fix that could be measured
        assert "GRA021" not in {found.code for found in rules.findings(facts, measured=measured)}


@pytest.mark.parametrize(
    "plan", [Plan(settings={"dynamic_block_base": 4}), Plan(rewrites=(RewriteSpec(name="hard-swish"),)), None]
)
def test_the_share_of_a_rule_of_its_own_bounds_no_fix(tmp_path: Path, plan: Plan | None) -> None:
    onnx.save(onnx.parser.parse_model(SPELLED_OUT), tmp_path / "m.onnx")
    info = TraceInfo(path="", format="ort-json", n_events=1, n_runs=1)
    run = ProfileResult(trace=info, n_runs=1, wall_ns=100.0, categories=(Category(name="kernels", ns=100.0),))
    finding = Finding(code="THR006", what="a", share_ratio=0.2, plan=plan)
    (told,) = expected_gains.estimated([finding], open_model(tmp_path / "m.onnx").ir, run)
    assert told.share_ratio == 0.2 and told.least_ratio is None
    assert "at most" not in finding_words.estimate(told)


SPECTRUM = """
<ir_version: 8, opset_import: ["" : 17]>
spectrum (float[2,1000,1] x, float[512,512] z) => (float[2,f,b,2] y, float[512,512] m)
<int64 step = {10}, int64 length = {100}, float six = {6.0}, float three = {3.0}, float zero = {0.0}>
{
    [spectrum] s = STFT (x, step, , length)
    [steps] y = Identity (s)
    [product] h = MatMul (z, z)
    [sum] a = Add (h, three)
    [clip] c = Clip (a, zero, six)
    [times] t = Mul (h, c)
    [over] m = Div (t, six)
}
"""


def test_a_share_of_the_work_is_not_given_where_it_says_nothing_of_the_time(tmp_path: Path) -> None:
    """A transform of an odd length takes nearly all of this run, and a twentieth of its operations."""
    path = saved(tmp_path / "m.onnx", onnx.parser.parse_model(SPECTRUM))
    findings = {f.code: f for f in ortune.check(str(path)).result.models[0].findings}
    assert {"GRA025", "GRA017"} <= findings.keys()
    assert [f.share_ratio for f in findings.values()] == [None] * len(findings)
