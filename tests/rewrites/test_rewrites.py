"""Every rewrite, on every model of the corpus: described whole, true to its word, and right in ONNX Runtime."""

from __future__ import annotations

import contextlib
import importlib
import importlib.util
import pkgutil
import sys
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from types import ModuleType

import numpy as np
import onnx
import onnx_ir as ir
import onnxruntime as ort
import pytest
from corpus_models import Feeds
from onnx import parser
from rewrite_corpus import BETWEEN, CORPUS, FIXED, INTO, OUT, SAVED, SINGLE, SWISH, Sample

import zoo
from ortune import rewrites
from ortune.graph.model.graphs import nodes
from ortune.graph.model.open import OpenModel, open_model
from ortune.graph.model.save import save_model
from ortune.inputs import workload as workloads
from ortune.inputs.feeds import make_feeds
from ortune.records import Case, InputChoice, RewriteSpec, Runtime, Workload
from ortune.rewrites import plain_arithmetic
from ortune.rewrites._base import Rewrite
from ortune.rewrites._checks import problem
from ortune.targets.tool import ToolProcess

ort.set_default_logger_severity(4)

HEADINGS = (
    "What it is:", "Why it costs:", "Evidence:", "Fix and its safety:", "Example:", "References:",
)  # fmt: skip
LIGHT = (
    "light-shufflenet",
    "light-squeezenet",
    # Convolutions, normalisations, sums and joins as in the two above, many times more of them.
    *(pytest.param(name, marks=pytest.mark.long) for name in ("light-resnet50", "light-inception-v2")),
)


def modules() -> list[ModuleType]:
    names = [m.name for m in pkgutil.iter_modules(rewrites.__path__) if not m.name.startswith("_")]
    return [importlib.import_module(f"ortune.rewrites.{name}") for name in names]


MODULES = modules()
REWRITES: list[Rewrite] = [module.REWRITE for module in MODULES]
each_module = pytest.mark.parametrize("module", MODULES, ids=lambda m: m.REWRITE.name)
each_rewrite = pytest.mark.parametrize("rewrite", REWRITES, ids=lambda r: r.name)
each_sample = pytest.mark.parametrize("sample", CORPUS, ids=lambda s: s.name)


@pytest.fixture
def tool(tmp_path: Path) -> ToolProcess:
    return ToolProcess(runtime=Runtime(python=sys.executable, ort_version=ort.__version__), folder=tmp_path)


def workload_of(feeds: Feeds) -> Workload:
    """The one case that these feeds are."""
    inputs = tuple(InputChoice(name=n, dtype="float", shape=tuple(a.shape)) for n, a in feeds.items())
    return Workload(cases=(Case(name="all", inputs=inputs),))


def spec_for(rewrite: Rewrite, opened: OpenModel, feeds: Feeds) -> RewriteSpec:
    return rewrites.completed(RewriteSpec(name=rewrite.name), opened.ir, workload_of(feeds))


def run(path: Path, feeds: Feeds, *, optimize: bool = True) -> list[np.ndarray]:
    options = ort.SessionOptions()
    if not optimize:
        options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
    session = ort.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
    return session.run(None, feeds)


def assert_same_outputs(rewrite: Rewrite, made: rewrites.RewrittenFile, original: Path, feeds: Feeds) -> None:
    """Equal up to the order of sums: no rewrite may be worse without saying that it changes the numerics."""
    optimize = made.settings.get("graph_optimization_level") != "disable"
    expected, got = run(original, feeds), run(made.path, feeds, optimize=optimize)
    assert len(got) == len(expected)
    for ours, theirs in zip(got, expected, strict=True):
        assert ours.dtype == theirs.dtype
        if rewrite.safety == "numerics":
            continue
        scale = float(np.abs(theirs).max(initial=0))
        np.testing.assert_allclose(ours, theirs, rtol=1e-5, atol=1e-6 * scale)


def proto_bytes(model: ir.Model, folder: Path) -> bytes:
    """The model as it would be written, so that any difference shows."""
    save_model(model, folder / "as-written.onnx")
    return (folder / "as-written.onnx").read_bytes()


@each_module
def test_headings_are_there_in_order(module: ModuleType) -> None:
    text = module.__doc__ or ""
    places = [text.find("\n" + heading) for heading in HEADINGS]
    missing = [heading for heading, place in zip(HEADINGS, places, strict=True) if place == -1]
    assert missing == [], "headings that the docstring lacks"
    assert places == sorted(places), "the headings are in another order"


@each_module
def test_the_file_is_named_for_the_rewrite(module: ModuleType) -> None:
    name = module.__name__.rpartition(".")[2].replace("_", "-")
    assert name == module.REWRITE.name, "the file has the name of the rewrite, with underscores"


@each_module
def test_the_example_is_accepted(module: ModuleType) -> None:
    line = next(line for line in (module.__doc__ or "").splitlines() if line.startswith("Example:"))
    assert rewrites.parse(line.partition("--rewrite ")[2].split()[0].strip("`")).name == module.REWRITE.name


def test_all_are_discovered() -> None:
    assert rewrites.all_rewrites() == {r.name: r for r in sorted(REWRITES, key=lambda r: r.name)}
    assert {OUT, SAVED, FIXED, SWISH, INTO, BETWEEN, SINGLE} <= set(rewrites.all_rewrites())


@each_rewrite
def test_either_a_change_or_a_task(rewrite: Rewrite) -> None:
    assert (rewrite.change is None) == bool(rewrite.task)


@contextlib.contextmanager
def about(rewrite: Rewrite, model: str = "") -> Iterator[None]:
    """What fails within names the rewrite, and the model of its file."""
    try:
        yield
    except Exception as error:
        error.add_note(f"the rewrite {rewrite.name} {model}".rstrip())
        raise


def is_for_the_corpus(rewrite: Rewrite) -> bool:
    """Not those that take most models, need inputs or a provider, or end a row: each has tests of its own."""
    there = not rewrite.needs or importlib.util.find_spec(rewrite.needs) is not None
    alone = rewrite.calibrated or rewrite.by_provider or rewrite.makes == rewrites.ORT
    return there and not (rewrite.family or alone)


@each_sample
def test_on_the_corpus(sample: Sample, tmp_path: Path, tool: ToolProcess) -> None:
    original = sample.write(tmp_path)
    opened = open_model(original)
    untouched = proto_bytes(opened.ir, tmp_path)
    with rewrites.remembering():
        for rewrite in filter(is_for_the_corpus, REWRITES):
            with about(rewrite):
                require_true_to_its_word(rewrite, sample, opened, tmp_path, tool)
                assert proto_bytes(opened.ir, tmp_path) == untouched


def require_true_to_its_word(
    rewrite: Rewrite, sample: Sample, opened: OpenModel, folder: Path, tool: ToolProcess
) -> None:
    """Fails where a rewrite is not what it says on a model, or leaves something for itself."""
    spec = spec_for(rewrite, opened, sample.feeds)
    made = rewrites.rewrite_model(opened, [spec], folder / "made", tool)
    (step,) = made.steps

    assert step.result.modified >= (rewrite.name in sample.holds), step.result.reasons
    if rewrite.name not in (SAVED, "onnxsim", "onnxslim", "onnxscript-optimizer"):
        assert step.result.modified == (rewrite.name in sample.holds)
    if not step.result.modified:
        assert step.result.reasons
        assert made.path == opened.path
        assert not made.settings
        return
    onnx.checker.check_model(str(made.path))
    rewritten = open_model(made.path)
    assert problem(rewritten.ir) == ""
    assert rewritten.ir.metadata_props[rewrites.MODEL_KEY] == rewrite.name
    assert_provenance(opened.ir, rewritten.ir, rewrite.name)
    assert_same_outputs(rewrite, made, opened.path, sample.feeds)

    again = rewrites.rewrite_model(rewritten, [spec], folder / "again", tool)
    assert not again.modified
    assert again.path == made.path


@pytest.mark.parametrize("module", [m for m in MODULES if hasattr(m, "BAD")], ids=lambda m: m.REWRITE.name)
def test_on_the_models_of_its_file(module: ModuleType, tmp_path: Path, tool: ToolProcess) -> None:
    """BAD is changed, and GOOD, which is similar, is not."""
    rewrite: Rewrite = module.REWRITE
    for name, holds in (("BAD", frozenset({rewrite.name})), ("GOOD", frozenset())):
        with about(rewrite, name):
            build = partial(parser.parse_model, getattr(module, name))
            onnx.checker.check_model(build(), full_check=True)
            onnx.save(build(), tmp_path / f"{name}.onnx")
            opened = open_model(tmp_path / f"{name}.onnx")
            ((_, feeds),) = workloads.feeds(opened.ir, workloads.propose(opened.ir))
            sample = Sample(name=name, build=build, feeds=feeds, holds=holds)
            require_true_to_its_word(rewrite, sample, opened, tmp_path, tool)


def test_each_is_tested_where_it_applies() -> None:
    tests = "".join(file.read_text(encoding="utf-8") for file in Path(__file__).parents[1].rglob("*.py"))
    for module in MODULES:
        file = module.__name__.rpartition(".")[2]
        tested = hasattr(module, "BAD") or module.REWRITE.name in tests or file in tests
        assert tested, (
            f"no test applies {module.REWRITE.name} to a model that it changes: "
            f"add BAD and GOOD to {file}.py, as docs/add-a-rewrite.md shows"
        )


def assert_provenance(before: ir.Model, after: ir.Model, name: str) -> None:
    """Nodes are marked exactly where operator, names or plain attributes are not those of a node before."""

    def look(node: ir.Node) -> tuple[object, ...]:
        return (
            node.domain, node.op_type, node.name,
            tuple(v and v.name for v in node.inputs), tuple(v.name for v in node.outputs),
        )  # fmt: skip

    known = {look(node) for node in nodes(before)}
    for node in nodes(after):
        marked = node.metadata_props.get(rewrites.NODE_KEY) == name
        assert marked or look(node) in known


@pytest.mark.parametrize("sample", [s for s in CORPUS if not s.external], ids=lambda s: s.name)
def test_in_memory_it_is_true_to_its_word(sample: Sample, tmp_path: Path) -> None:
    opened = open_model(sample.write(tmp_path))
    clone = opened.ir.clone()
    before = proto_bytes(clone, tmp_path)
    for rewrite in REWRITES:
        if rewrite.change is None:
            continue
        with about(rewrite):
            spec = spec_for(rewrite, opened, sample.feeds)
            result = rewrite.apply(clone, spec.params)
            after = proto_bytes(clone, tmp_path)
            assert result.modified == (after != before)
            if result.modified:
                assert not rewrite.apply(clone, spec.params).modified
                assert proto_bytes(clone, tmp_path) == after
                clone = opened.ir.clone()


@pytest.mark.parametrize("name", LIGHT)
def test_on_real_models(name: str, tmp_path: Path, tool: ToolProcess) -> None:
    original = zoo.model_path(name)
    opened = open_model(original)
    (case,) = workloads.propose(opened.ir).cases
    feeds = {k: v for k, v in make_feeds(opened.ir, case, seed=0).items() if isinstance(v, np.ndarray)}
    for rewrite in REWRITES:
        if not is_for_the_corpus(rewrite):
            continue
        spec = spec_for(rewrite, opened, feeds)
        made = rewrites.rewrite_model(opened, [spec], tmp_path, tool)
        if made.modified:
            assert_same_outputs(rewrite, made, original, feeds)
            assert not rewrites.rewrite_model(
                open_model(made.path), [spec], tmp_path / "again", tool
            ).modified
    assert rewrites.rewrite_model(opened, [RewriteSpec(name=OUT)], tmp_path).modified


def test_a_match_that_is_a_node_is_its_own_end() -> None:
    text = """
        <ir_version: 8, opset_import: ["": 17]>
        sums (float[8] x, float[8] y) => (float[8] z) { [the_sum] s = Sum(x, y) z = Relu(s) }
    """
    model = ir.from_proto(parser.parse_model(text))
    assert [node.name for node in plain_arithmetic.PATTERN.ends(model)] == ["the_sum"]


def test_a_sum_of_hundreds_of_tensors_is_no_chain_of_additions() -> None:
    names = ", ".join(["x"] * 300)
    model = ir.from_proto(
        parser.parse_model(f"""
        <ir_version: 8, opset_import: ["": 17]>
        sums (float[8] x) => (float[8] z) {{ [the_sum] s = Sum({names}) z = Relu(s) }}
    """)
    )
    assert plain_arithmetic.PATTERN.ends(model) == []
    result = plain_arithmetic.REWRITE.apply(model)
    assert not result.modified and "300" in result.reasons[0]
