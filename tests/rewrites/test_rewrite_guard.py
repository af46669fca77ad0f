"""What surrounds a rewrite: its claims are checked, its parameters read, its results kept, its proposals chosen."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import msgspec
import onnx
import onnx.parser
import onnx_ir as ir
import pytest
from corpus_models import branches, old_exporter, weight
from rewrite_corpus import CORPUS, FIXED, OUT, SAVED, SIZES

import ortune
from facts import facts
from ortune import rewrites
from ortune.errors import ModelError, OrtuneError, UsageError
from ortune.graph.model.open import OpenModel, open_model
from ortune.graph.model.save import save_model
from ortune.records import Case, InputChoice, Plan, RewriteSpec, Workload
from ortune.rewrites._base import Param, Rewrite, RewriteResult

BY_NAME = {sample.name: sample for sample in CORPUS}


def opened(name: str, folder: Path) -> OpenModel:
    return open_model(BY_NAME[name].write(folder))


def rewrite_that(change: Callable[[ir.Model], bool]) -> Rewrite:
    """A rewrite that does this and claims what it returns."""

    def apply(model: ir.Model, params: object) -> RewriteResult:
        return RewriteResult(modified=change(model), what="did it")

    return Rewrite(
        name="under-test", summary="", safety="exact", change=apply, proposes=lambda model, workload: []
    )


def rename_last(model: ir.Model) -> None:
    model.graph[-1].name = "renamed"


def replace_weight(model: ir.Model) -> None:
    (value,) = model.graph.initializers.values()
    value.const_value = ir.tensor(value.const_value.numpy().copy(), name=value.name)


def change_attribute(model: ir.Model) -> None:
    model.graph[0].attributes["extra"] = ir.AttrInt64("extra", 1)


CHANGES = (rename_last, replace_weight, change_attribute)


@pytest.mark.parametrize("change", CHANGES)
def test_a_change_that_is_denied_is_found(change: Callable[[ir.Model], None], tmp_path: Path) -> None:
    model = opened("plain", tmp_path).ir.clone()
    with pytest.raises(OrtuneError, match="but reported no change") as caught:
        rewrite_that(lambda m: bool(change(m))).apply(model)
    assert caught.value.code == "rewrite-bug"


def test_a_change_that_was_none_is_found(tmp_path: Path) -> None:
    model = opened("plain", tmp_path).ir.clone()
    with pytest.raises(OrtuneError, match="but did not change the model"):
        rewrite_that(lambda m: True).apply(model)


def test_only_the_nodes_that_changed_are_marked(tmp_path: Path) -> None:
    model = opened("loop", tmp_path).ir.clone()
    body = model.graph[0].attributes["body"].as_graph()
    inner = next(n for n in body if n.op_type == "Relu")

    def swap(m: ir.Model) -> bool:
        inner.op_type = "Abs"
        return True

    rewrite_that(swap).apply(model)
    assert inner.metadata_props == {rewrites.NODE_KEY: "under-test"}
    others = [n for n in (*model.graph, *body) if n is not inner]
    assert not any(n.metadata_props for n in others)
    assert rewrites.made_by(model) == ("under-test",)


def dangle(model: ir.Model) -> bool:
    model.graph[1].replace_input_with(0, ir.Value(name="nobody"))
    return True


def drop_weight(model: ir.Model) -> bool:
    del model.graph.initializers["w"]
    return True


def disorder(model: ir.Model) -> bool:
    last = model.graph[-1]
    model.graph.remove(last)
    model.graph.insert_before(model.graph[0], last)
    return True


def same_name(model: ir.Model) -> bool:
    model.graph[1].outputs[0].name = "m"
    return True


def foreign_domain(model: ir.Model) -> bool:
    model.graph[1].domain = "com.example"
    return True


def old_ir_version(model: ir.Model) -> bool:
    model.ir_version = 3
    return True


def unnamed_output(model: ir.Model) -> bool:
    model.graph.outputs[0] = ir.Value(name="y2")
    return True


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (dangle, "'nobody', which no earlier node produces"),
        (drop_weight, "'w', which no earlier node produces"),
        (disorder, "'i', which no earlier node produces"),
        (same_name, "'m' is used twice"),
        (foreign_domain, "does not import"),
        (old_ir_version, "IR version 3"),
        (unnamed_output, "no node produces the output 'y2'"),
    ],
)
def test_a_model_that_was_broken_is_refused(
    change: Callable[[ir.Model], bool], said: str, tmp_path: Path
) -> None:
    model = opened("plain", tmp_path).ir.clone()
    with pytest.raises(OrtuneError, match=said) as caught:
        rewrite_that(change).apply(model)
    assert caught.value.code == "rewrite-bug"


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("b", "a", "'a' is used twice"),
        ("w", "a", "reads 'a', which no earlier node produces"),
        ("w", "q", ""),
    ],
)
def test_names_within_are_held_against_those_around(old: str, new: str, said: str) -> None:
    """A weight may hide a value that is not read beside it."""
    model = ir.serde.deserialize_model(
        onnx.parser.parse_model(
            """<ir_version: 8, opset_import: ["" : 17]> g (float[2] x, bool c) => (float[2] y)
            {
                q = Neg (x)
                a = Relu (q)
                y = If (c) <
                    then_branch = t () => (float[2] z) <float[1] w = {1.0}> { b = Add (a, w) z = Mul (b, a) },
                    else_branch = f () => (float[2] z) { z = Exp (a) }
                >
            }"""
        )
    )

    def rename(model: ir.Model) -> bool:
        inner = model.graph[2].attributes["then_branch"].as_graph()
        value = inner[0].outputs[0] if old == "b" else inner.initializers[old]
        value.name = new
        return True

    if said:
        with pytest.raises(OrtuneError, match=said):
            rewrite_that(rename).apply(model)
    else:
        assert rewrite_that(rename).apply(model).modified


@pytest.mark.parametrize(
    ("text", "name", "params"),
    [
        ("initializers-out-of-inputs", OUT, {}),
        ("initializers-out-of-inputs:keep=h+c", OUT, {"keep": "h+c"}),
        ("ort-optimized-model", SAVED, {}),
        ("ort-optimized-model:level=ALL", SAVED, {}),
        ("ort-optimized-model:level=basic", SAVED, {"level": "basic"}),
        ("fixed-dimensions:seq=128, batch=01", FIXED, {"batch": "1", "seq": "128"}),
        ("fixed-dimensions:past=0=7,x[1]=3", FIXED, {"past=0": "7", "x[1]": "3"}),
    ],
)
def test_the_command_line_is_read(text: str, name: str, params: dict[str, str]) -> None:
    spec = rewrites.parse(text)
    assert spec == RewriteSpec(name=name, params=params)
    assert rewrites.canonical(spec) == spec


@pytest.mark.parametrize(
    ("text", "option", "where"),
    [
        ("zzz", "--b-rewrite", "--b-rewrite"),
        ("zzz", "", ""),
        ("fixed-dimensions:batch", "--a-rewrite", "--a-rewrite fixed-dimensions:batch"),
        ("fixed-dimensions:batch", "", "fixed-dimensions:batch"),
        ("fixed-dimensions:batch=0", "--b-rewrite", "--b-rewrite"),
    ],
)
def test_an_error_names_the_option_that_was_used(text: str, option: str, where: str) -> None:
    with pytest.raises(UsageError) as refused:
        rewrites.parse(text, option)
    assert refused.value.where == where


def test_a_model_among_rewrites_is_to_come_first() -> None:
    with pytest.raises(UsageError, match="is a model, not a rewrite") as refused:
        ortune.rewrite("gelu", "m.onnx")
    assert "ortune rewrite MODEL NAME" in refused.value.do


@pytest.mark.parametrize(
    ("text", "said", "do"),
    [
        ("ort-optimised-model", "unknown rewrite", "ort-optimized-model"),
        ("fixed-dims:batch=1", "unknown rewrite", "fixed-dimensions"),
        ("zzz", "unknown rewrite", "initializers-out-of-inputs"),
        ("", "unknown rewrite", "the rewrites are "),
        ("folder/model.onnx", "unknown rewrite", "the rewrites are "),
        ("fixed-dimensions:batch", "'batch' is not PARAMETER=VALUE", "k=v"),
        ("fixed-dimensions:=1", "is not PARAMETER=VALUE", "k=v"),
        ("fixed-dimensions:", "is not PARAMETER=VALUE", "k=v"),
        ("fixed-dimensions:a=1,a=2", "set twice", "once"),
        ("fixed-dimensions:batch=0", "'0' is not a valid value for batch", "at least 1"),
        ("fixed-dimensions:batch=-1", "'-1' is not a valid value", "at least 1"),
        ("fixed-dimensions:batch=²", "is not a valid value", "integer"),
        ("ort-optimized-model:level=layout", "'layout' is not a valid value", "extended"),
        ("ort-optimized-model:depth=1", "no parameter 'depth'", "level"),
    ],
)
def test_a_wrong_command_line_is_told(text: str, said: str, do: str) -> None:
    with pytest.raises(UsageError, match=said) as caught:
        rewrites.parse(text)
    assert do in caught.value.do
    assert "--rewrite" in caught.value.where


def test_a_rewrite_without_parameters_says_so() -> None:
    with pytest.raises(UsageError) as caught:
        rewrite_that(lambda m: False).canonical({"x": "1"})
    assert "no parameters" in caught.value.do


def test_defaults_are_no_part_of_a_plan() -> None:
    plans = {
        Plan(rewrites=(rewrites.parse(t),)).id
        for t in ("ort-optimized-model", "ort-optimized-model:level=all")
    }
    assert len(plans) == 1
    assert Param(name="n", kind="text", summary="").checked("r", "n", " v ") == "v"


def test_initializers_that_callers_feed_stay(tmp_path: Path) -> None:
    oldest = opened("old-exporter", tmp_path).ir.clone()
    workload = Workload(
        cases=(Case(name="all", inputs=(InputChoice(name="mean", dtype="float", shape=(16,)),)),)
    )
    # Below IR version 4 ONNX Runtime takes weights for constants wherever they are listed: nothing is to be won.
    assert not rewrites.proposals(oldest, workload=workload, objective="latency")
    oldest.ir_version = 4
    save_model(oldest, tmp_path / "old.onnx")
    source = open_model(tmp_path / "old.onnx")
    ((spec, reason),) = rewrites.proposals(source.ir, workload=workload, objective="latency")
    assert spec == RewriteSpec(name=OUT, params={"keep": "mean"})
    assert reason.startswith("4 initializers")
    made = open_model(rewrites.apply_all(source, [spec], tmp_path / "out"))
    assert [v.name for v in made.ir.graph.inputs] == ["x", "mean"]
    assert made.ir.ir_version == 4


def test_a_kept_name_that_is_none_is_told(tmp_path: Path) -> None:
    model = opened("branches-old", tmp_path).ir.clone()
    result = rewrites.find(OUT).apply(model, {"keep": "v"})
    assert result.modified
    (why,) = result.reasons
    facts(why, "'v'", "not an initializer", "cannot be kept")
    facts(result.what, "Removed 1 initializer ", "inputs")
    assert model.ir_version == branches(weights_are_inputs=True).ir_version
    everything = opened("branches-old", tmp_path).ir.clone()
    assert not rewrites.find(OUT).apply(everything, {"keep": "w"}).modified


def test_dimensions_become_numbers(tmp_path: Path) -> None:
    model = opened("dynamic", tmp_path).ir.clone()
    result = rewrites.find(FIXED).apply(model, {"batch": "2", "x[1]": "6"})
    assert result == RewriteResult(modified=True, what=result.what)
    facts(result.what, "batch=2, x[1]=6", "rejects other sizes")
    shapes = {v.name: v.shape for v in (*model.graph.inputs, *model.graph.outputs)}
    assert shapes["x"] == [2, 6, 4]
    assert shapes["z"] == [2, 6, 4]
    assert [d if isinstance(d, int) else d.value for d in shapes["y"]] == [None, 8]
    assert [d if isinstance(d, int) else d.value for d in shapes["a"]] == [None, "six", 4]
    inner = {v.name: v.shape for node in model.graph for v in node.outputs}
    assert inner["f"] is None
    assert inner["to"] == [2]


def test_dimensions_that_are_not_there_are_told(tmp_path: Path) -> None:
    model = opened("dynamic", tmp_path).ir.clone()
    result = rewrites.find(FIXED).apply(model, {"bacth": "2"})
    assert not result.modified
    (why,) = result.reasons
    facts(why, "'bacth'", "available: batch, x[1]")
    with pytest.raises(UsageError, match=r"z\[1\] is 6 in the model and cannot become 5"):
        rewrites.find(FIXED).apply(model, {"z[1]": "5"})
    assert "no sizes" in rewrites.find(FIXED).apply(model, {}).reasons[0]


def workload_with(*cases: dict[str, tuple[int, ...]]) -> Workload:
    return Workload(
        cases=tuple(
            Case(
                name=str(i),
                inputs=tuple(InputChoice(name=n, dtype="float", shape=s) for n, s in shapes.items()),
            )
            for i, shapes in enumerate(cases)
        )
    )


@pytest.mark.parametrize(
    ("cases", "params"),
    [
        ([{"x": (2, 6, 4), "z": (2, 6, 4)}], {"batch": "2", "x[1]": "6"}),
        # One symbol with two sizes: the name lies, so each place is told by itself.
        ([{"x": (2, 6, 4), "z": (1, 6, 4)}], {"x[0]": "2", "x[1]": "6", "z[0]": "1"}),
        # An empty cache grows at the next step.
        ([{"x": (2, 0, 4), "z": (2, 6, 4)}], {"batch": "2"}),
        ([{"x": (2, 6, 4), "z": (2, 6, 4)}, {"x": (1, 6, 4), "z": (1, 6, 4)}], None),
    ],
)
def test_sizes_come_from_the_only_case(
    cases: list[dict[str, tuple[int, ...]]], params: dict[str, str] | None, tmp_path: Path
) -> None:
    model, workload = opened("dynamic", tmp_path).ir, workload_with(*cases)
    found = [s for s, _ in rewrites.proposals(model, {"behaviour"}, workload=workload) if s.name == FIXED]
    assert [s.params for s in found] == ([params] if params else [])
    bare = RewriteSpec(name=FIXED)
    assert rewrites.completed(bare, model, workload).params == (params or {})
    given = RewriteSpec(name=FIXED, params={"batch": "9"})
    assert rewrites.completed(given, model, workload) == given


def test_what_is_proposed_depends_on_leave_and_objective(tmp_path: Path) -> None:
    model, workload = opened("dynamic", tmp_path).ir, workload_with(BY_NAME["dynamic"].feeds_shapes())
    names = lambda *a, **k: [s.name for s, _ in rewrites.proposals(model, *a, workload=workload, **k)]  # noqa: E731
    assert names() == [SIZES, SAVED]
    assert names(objective="latency") == [SIZES]
    assert names(objective="cold-start") == [SIZES, SAVED]
    assert names({"behaviour"}, objective="latency") == [SIZES, FIXED]
    assert names({FIXED}) == [SIZES, FIXED, SAVED]
    assert names({"numerics"}) == [SIZES, SAVED]
    assert all(reason for _, reason in rewrites.proposals(model))


def test_the_settings_that_a_plan_needs() -> None:
    specs = [rewrites.parse(OUT), rewrites.parse(SAVED)]
    assert rewrites.settings_for(specs) == {"graph_optimization_level": "disable"}
    assert rewrites.settings_for(specs[:1]) == {}


def test_a_result_is_kept_and_found_again(tmp_path: Path) -> None:
    source, folder = opened("branches-old", tmp_path), tmp_path / "kept"
    first = rewrites.rewrite_model(source, [rewrites.parse(OUT)], folder)
    written = first.path.stat().st_mtime_ns
    assert rewrites.rewrite_model(source, [rewrites.parse(OUT)], folder) == first
    assert first.path.stat().st_mtime_ns == written
    other = rewrites.rewrite_model(opened("old-exporter", tmp_path), [rewrites.parse(OUT)], folder)
    assert other.path != first.path
    assert sorted(p.name for p in folder.iterdir()) == sorted(
        {first.path.parent.name, other.path.parent.name}
    )


def test_nothing_is_left_of_a_failure(tmp_path: Path) -> None:
    folder = tmp_path / "kept"
    with pytest.raises(UsageError):
        rewrites.apply_all(opened("dynamic", tmp_path), [rewrites.parse("fixed-dimensions:z[1]=5")], folder)
    assert list(folder.iterdir()) == []


def test_without_rewrites_it_is_the_model_itself(tmp_path: Path) -> None:
    source = opened("plain", tmp_path)
    assert rewrites.apply_all(source, [], tmp_path / "kept") == source.path


def test_a_model_in_ort_format_is_refused(tmp_path: Path) -> None:
    source = opened("plain", tmp_path)
    finished = OpenModel(
        path=source.path, ir=source.ir, facts=msgspec.structs.replace(source.facts, format="ort")
    )
    with pytest.raises(ModelError, match="ORT format") as caught:
        rewrites.apply_all(finished, [rewrites.parse(OUT)], tmp_path / "kept")
    assert ".onnx" in caught.value.do


def test_weights_are_written_as_they_were_stored(tmp_path: Path) -> None:
    model = old_exporter()
    inside, beside = tmp_path / "inside.onnx", tmp_path / "beside.onnx"
    onnx.save(model, inside)
    onnx.save(model, beside, save_as_external_data=True, location="beside.data", size_threshold=0)
    for path in (inside, beside):
        made = open_model(rewrites.apply_all(open_model(path), [rewrites.parse(OUT)], tmp_path / "kept"))
        assert bool(made.external) == (path == beside)
        kept = {n: v.const_value.numpy().tobytes() for n, v in made.ir.graph.initializers.items()}
        assert kept["w"] == weight("w", 16, 3, 3, 3).raw_data
