"""``ortune compare`` of several sides, of sides whose outputs differ, and within budgets that hold no claim."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import onnx
import pytest

import ortune
from dense import dense
from facts import facts
from onnx_text import model_of, saved
from ortune.cli.verbs import command
from ortune.errors import InputError, UsageError
from ortune.measuring.watcher import Watcher
from ortune.records import Envelope, ProviderSpec
from ortune.search import duel
from ortune.search.blocks import NEW
from ortune.show import output_words as compare_outputs
from ortune.targets.tool import ToolFailed
from ortune.verbs._shared.session import experiment
from ortune.verbs._shared.spelling import words
from ortune.verbs.compare import gate_words as compare_gate
from ortune.verbs.compare import headline as compare_headline
from ortune.verbs.compare import ranking_words
from ortune.verbs.compare import run as compare
from ortune.verbs.compare.all_sides import resolve_all
from ortune.verbs.compare.comparing import Comparing
from ortune.verbs.compare.ranking import Contender
from patience import few_turns
from simulated_machine import Lab, measuring_on
from zoo import model_path

# Two measurements at once are each other's noise: those that wait for a verdict run one after another.
MEASURING = pytest.mark.xdist_group("measuring")


@pytest.fixture(autouse=True)
def own_place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ORTUNE_LOCK", str(tmp_path / "lock"))


def asked(*sides: str, **more: Any) -> compare.Options:
    a, b, *rest = [*sides, None] if len(sides) == 1 else sides
    return compare.Options(a=a, b=b, more=rest, **more)


def measured(folder: Path, *sides: Path, **more: Any) -> Envelope[Any]:
    """A comparison within six blocks, asked for as from Python; on an unquiet machine once more."""
    usual = {"max_blocks": 6, "no_why": True, "store": folder / "store", "set": {"intra": 1}}
    for attempt in range(3):
        try:
            with few_turns():
                return ortune.compare(*map(str, sides), **{**usual, **more})
        except ortune.errors.MeasurementError as error:
            if error.code != "invalid" or attempt == 2:
                raise
    raise AssertionError


def classifier(path: Path, *, steps: int = 0, logits: bool = False) -> Path:
    """Two products and a Softmax; their weights rounded to so many steps of their largest, or without the Softmax."""
    rng = np.random.default_rng(7)
    weights = {name: 0.2 * rng.standard_normal((96, 96)).astype(np.float32) for name in ("w0", "w1")}
    for name, value in weights.items() if steps else ():
        scale = np.abs(value).max() / steps
        weights[name] = (np.round(value / scale) * scale).astype(np.float32)
    last = "y = MatMul (h, w1)" if logits else "logits = MatMul (h, w1) y = Softmax (logits)"
    text = f"classifier (float[8,96] x) => (float[8,96] y) {{ h = MatMul (x, w0) {last} }}"
    return saved(path, model_of(text, weights=weights))


# --- what may be asked


def test_settings_are_given_from_python_as_a_list_a_text_or_by_name() -> None:
    forms: list[Any] = [["intra=1", "spin=0"], {"intra": 1, "spin": False}]
    assert {asked("m.onnx", b_set=form).b_set for form in forms} == {("intra=1", "spin=0")}
    assert asked("m.onnx", set="intra=1", dim="seq=8", b_set="spin=0").set == ("intra=1",)
    assert words(asked("m.onnx", b_set={"intra": 1}, c_set="intra=2")) == [
        "m.onnx", "--b-set", "intra=1", "--c-set", "intra=2",
    ]  # fmt: skip


def test_every_side_has_a_letter_and_what_alters_it() -> None:
    options = asked(
        "a.onnx", "b.onnx", "c.onnx",
        b_target="openvino", c_runtime="venv", d_set="intra=1", d_rewrite=["x"], runtime="r", rewrite="y",
    )  # fmt: skip
    assert options.new_letters == "bcd"
    b, c, d = (options.side(letter) for letter in "bcd")
    assert (b.text, b.target, b.runtime, b.rewrites) == ("b.onnx", "openvino", "r", ["y"])
    assert (c.text, c.runtime, c.target) == ("c.onnx", "venv", None)
    assert (d.text, d.settings, d.rewrites) == (None, ("intra=1",), ["y", "x"])


@pytest.mark.parametrize(
    ("sides", "more", "what"),
    [
        (["m.onnx"], {"d_set": "intra=1"}, "D is used, but B is neither"),
        (["m.onnx", "b.onnx"], {"d_target": "cpu"}, "D is used, but C is neither"),
        (["m.onnx"], {"c_ort_web": "1.22.0"}, "--c-ort-web: C is used, but B is neither"),
        ([f"{i}.onnx" for i in range(9)], {}, "9 sides; a comparison supports at most 8"),
    ],
)
def test_a_side_that_is_left_out_is_one_clear_error(
    sides: list[str], more: dict[str, Any], what: str
) -> None:
    with pytest.raises(UsageError, match=what):
        asked(*sides, **more)


def test_the_help_has_the_sides_of_every_letter_once() -> None:
    import typer.main

    shown = typer.main.get_command(_app())
    flags = {flag: p.hidden for p in shown.params for flag in p.opts if hasattr(p, "hidden")}
    assert flags["--b-set"] is False and flags["--c-set"] is True and flags["--h-target"] is True


def _app() -> Any:
    import typer

    app = typer.Typer()
    app.command()(command("compare"))
    return app


# --- several at once


@pytest.fixture(scope="module")
def ranked(tmp_path_factory: pytest.TempPathFactory) -> Envelope[Any]:
    """Four sides against one model: equal, less exact, another model's outputs, and one that does not run."""
    folder = tmp_path_factory.mktemp("ranked")
    monkeypatch = pytest.MonkeyPatch()
    monkeypatch.setenv("ORTUNE_LOCK", str(folder / "lock"))
    a, coarse = classifier(folder / "a.onnx"), classifier(folder / "coarse.onnx", steps=15)
    shutil.copy(a, folder / "same.onnx")
    with measuring_on(Lab(1, differ=False)):
        found = measured(
            folder, a, folder / "same.onnx", coarse, classifier(folder / "other.onnx", logits=True),
            e_set={"level": "disable"}, threshold="60%", max_blocks=7, budget="60s",
        )  # fmt: skip
    monkeypatch.undo()
    return found


@MEASURING
def test_several_sides_are_ranked_against_one_base(ranked: Envelope[Any]) -> None:
    result = ranked.result
    by_name = {side.name: side for side in result.candidates}
    assert set(by_name) == set("BCDE")
    ratios = [s.comparison.ratio for s in result.candidates if s.comparison]
    assert len(ratios) == 3 and ratios == sorted(ratios)
    assert result.candidates[-1].name == "D"
    first = result.candidates[0]
    assert (result.name, result.new, result.comparison) == (first.name, first.side, first.comparison)
    # Three sides were timed: with 95 % for all of them, each has a third of the error.
    assert {s.comparison.n_blocks for s in result.candidates if s.comparison} == {7}
    assert all(s.comparison.level >= 1 - 0.05 / 3 for s in result.candidates if s.comparison)


@MEASURING
def test_less_exact_outputs_are_timed_and_told_with_their_error(ranked: Envelope[Any]) -> None:
    coarse = next(s for s in ranked.result.candidates if s.name == "C")
    assert (coarse.outputs.ok, coarse.outputs.comparable) == (False, True)
    assert coarse.comparison is not None and coarse.figures is not None
    assert 1e-4 < coarse.outputs.relative_l2 < 1 and 0 < coarse.outputs.cosine < 1
    assert coarse.outputs.accepting_tolerance > coarse.outputs.relative_l2
    told = compare_outputs.outputs(coarse.outputs)
    assert told.startswith("outputs differ beyond rounding (relative L2 0.")
    assert told.endswith(f"); accept with --tolerance {coarse.outputs.accepting_tolerance:g}")


@MEASURING
def test_a_gate_fails_what_differs_and_what_cannot_be_compared(ranked: Envelope[Any]) -> None:
    answers = {s.name: s.gate.answer for s in ranked.result.candidates}
    assert (answers["C"], answers["D"]) == ("fail", "fail")
    assert answers["B"] != "fail"
    assert compare.exit_code(ranked) == 1
    lines = compare_gate.gate(ranked.result)
    assert any("FAIL, C's outputs differ" in line and "beyond rounding" in line for line in lines)
    assert any("FAIL, D's outputs" in line and "wrong" in line for line in lines)


@MEASURING
def test_the_table_has_a_row_a_side_with_its_error(ranked: Envelope[Any]) -> None:
    table = ranking_words.ranking(ranked.result)
    rows = {row[0].text: [cell.text for cell in row] for row in table.rows}
    assert set(rows) == set("ABCDE")
    assert rows["B"][-1] == "identical"
    assert "cosine 0." in rows["C"][-1] and "beyond rounding" in rows["C"][-1]
    assert rows["D"][-1].startswith("not comparable: output")
    assert "graph_optimization_level=disable" in rows["E"][2]


def test_another_models_outputs_fail_without_a_gate(tmp_path: Path) -> None:
    a, b = dense(tmp_path / "a.onnx"), dense(tmp_path / "b.onnx", scale=2.0)
    found = measured(tmp_path, a, b)
    assert (found.verdict, compare.exit_code(found)) == ("wrong-output", 1)
    assert found.result.comparison is None and found.result.candidates == ()


def test_one_side_that_differs_is_timed_and_passes_without_a_gate(tmp_path: Path) -> None:
    a, b = dense(tmp_path / "a.onnx"), dense(tmp_path / "b.onnx", scale=1.004)
    found = measured(tmp_path, a, b, budget="1s")
    assert found.verdict != "wrong-output"
    assert found.result.comparison.n_blocks and not found.result.outputs.ok
    assert "relative L2 0.004" in compare_headline.headline(found.result)
    assert found.result.outputs.accepting_tolerance == 0.005
    assert compare.exit_code(found) == 0
    gated = msgspec.structs.replace(
        found.result, gate=ortune.records.Gate(threshold_ratio=0.5, answer="fail", undecided_counts_as="pass")
    )
    assert compare.exit_code(msgspec.structs.replace(found, result=gated)) == 1


def test_a_side_that_does_not_run_leaves_the_others_their_answer(tmp_path: Path) -> None:
    a = dense(tmp_path / "a.onnx")
    found = measured(tmp_path, a, b_set="spin=0", c_target="cuda", budget="1s").result
    assert [s.name for s in found.candidates] == ["B", "C"]
    assert found.candidates[0].comparison is not None
    assert found.candidates[1].outputs is None and found.candidates[1].failures
    # Alone it is an error, as ever.
    with pytest.raises(ortune.errors.MeasurementError, match="B does not run"):
        measured(tmp_path, a, b_target="cuda")


@pytest.mark.parametrize("name", ["silero-vad"])
def test_a_budget_that_holds_no_claim_tells_figures(tmp_path: Path, name: str) -> None:
    model = model_path(name)
    found = measured(tmp_path, model, b_set="level=basic", budget="1s", threshold="5%", max_blocks=None)
    result = found.result
    assert found.verdict == "inconclusive" and compare.exit_code(found) == 3
    assert (result.gate.answer, result.gate.reason) == ("no-answer", "too-few-blocks")
    assert result.enough_s > result.budget_s > 0
    assert result.base_figures.latency_ns > 0 and result.new_figures.latency_ns > 0
    assert 1 <= result.comparison.n_blocks < 6 and result.controls == ()
    facts(
        compare_headline.headline(result),
        "cannot confirm",
        "(6 needed)",
        "outputs identical",
        "rerun with --budget",
    )


def test_no_budget_is_proposed_where_the_blocks_are_limited_to_too_few(tmp_path: Path) -> None:
    a = dense(tmp_path / "a.onnx")
    result = measured(tmp_path, a, b_set="spin=0", c_set="level=basic", budget="2s").result
    assert result.comparison.n_blocks <= 6  # a claim of two sides needs seven
    assert result.enough_s is None


def test_no_budget_at_all_is_refused() -> None:
    with pytest.raises(UsageError, match="no time"):
        asked("m.onnx", budget="0s")


def test_inputs_of_another_kind_are_not_joined(tmp_path: Path) -> None:
    a = dense(tmp_path / "a.onnx")
    other = onnx.load(a)
    for each in other.graph.input:
        each.type.tensor_type.elem_type = onnx.TensorProto.INT64
    onnx.save(other, tmp_path / "b.onnx")
    with pytest.raises(InputError, match="of B is int64, but input 'x' of A is float"):
        measured(tmp_path, a, tmp_path / "b.onnx")


# --- rewrites


@pytest.mark.parametrize(("budget", "limit_s"), [("2s", 60), ("5m", 300)])
def test_a_rewrite_takes_no_longer_than_the_budget_allows(budget: str, limit_s: float) -> None:
    assert asked("m.onnx", budget=budget).terms.rewriting.load_s == limit_s


@pytest.mark.parametrize("verb", ["compare", "bench", "lock"])
def test_a_graph_is_optimised_for_the_target_that_runs_it(tmp_path: Path, verb: str) -> None:
    """Without the provider no graph can be optimised for it: it must not silently be the CPU's."""
    model = dense(tmp_path / "a.onnx")
    sides = [str(model)] * (2 if verb == "compare" else 1)
    place = {"output": tmp_path / "m.lock.json"} if verb == "lock" else {"store": tmp_path / "store"}
    with pytest.raises(ToolFailed) as caught:
        getattr(ortune, verb)(*sides, target="cuda", rewrite="ort-optimized-model", **place)
    assert "CUDA" in caught.value.what


def test_a_side_of_its_own_target_is_optimised_for_that(tmp_path: Path) -> None:
    from ortune.measuring.sides import SideText, resolve
    from ortune.records import Plan

    text = SideText(text=str(dense(tmp_path / "a.onnx")), rewrites=["ort-optimized-model"], target="cpu")
    cuda = Plan(providers=(ProviderSpec(name="CUDAExecutionProvider"),))
    side = resolve(text, common=cuda, scratch=tmp_path)
    assert side.plan.providers == () and side.runs.is_file()


def test_a_setting_without_effect_is_noted_for_each_side_that_has_it(tmp_path: Path) -> None:
    model = str(dense(tmp_path / "m.onnx"))
    options = asked(model, model, b_set=["inter_op_num_threads=2"], store=tmp_path / "store")
    with experiment("compare", options, Watcher()) as opened, opened.measuring("m"):
        a, (b,), _ = resolve_all(options, opened)
        rules = duel.Rules(max_blocks=2, threshold_ratio=1.0, statistic="median")
        comparing = Comparing(
            opened, a, [Contender(arm=NEW, side=b)], rules,
            objective="latency", seed=0, wait_ratio=0.0, tells_why=False,
        )  # fmt: skip
        (note,) = comparing.baseline.notes
        facts(note, "B: ", "inter_op_num_threads=2", "execution_mode=parallel")
