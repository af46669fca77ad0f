"""The operator tables: what the installed wheel says itself, and what each release has."""

from __future__ import annotations

import sys
from pathlib import Path

import onnxruntime
import pytest

from ortune.engines.partitions import support
from ortune.engines.partitions.partition import partition
from ortune.engines.partitions.tables import table
from ortune.errors import UsageError
from partition_models import parsed

sys.path.insert(0, str(Path(__file__).resolve().parents[3] / "tools"))

import make_mobile_tables

DYNAMIC = "dynamic-shape"
HELPERS = Path(onnxruntime.__file__).parent / "tools" / "mobile_helpers"


@pytest.mark.parametrize("name", make_mobile_tables.LISTS)
def test_table_is_the_list_of_the_installed_wheel(name: str) -> None:
    text = (HELPERS / make_mobile_tables.LISTS[name][0]).read_text()
    assert table(name).operators(onnxruntime.__version__) == make_mobile_tables.operators(text)


def test_a_release_has_no_more_than_the_one_after() -> None:
    program = table("coreml")
    before: frozenset[str] = frozenset()
    for release in program.releases:
        assert before <= program.operators(release)
        before = program.operators(release)
    assert "FusedConv" not in {op.rpartition(":")[2] for op in program.operators("1.26.0")}
    assert "com.microsoft:FusedConv" in program.operators("1.27.0")


def test_releases_between_and_beyond_those_that_were_read() -> None:
    program = table("coreml")
    assert program.operators("1.18.0") == frozenset()
    assert program.operators("1.31.0") == program.operators("1.31.1")
    assert program.operators("9.0") == program.operators("")
    assert program.release("9.0") == program.releases[-1]


def test_every_format_has_a_table_and_others_none() -> None:
    assert all(each.table.since for each in support.FORMATS)
    with pytest.raises(UsageError, match="no operator table for 'cpu'"):
        support.find("cpu")


@pytest.mark.parametrize(
    ("provider", "graph", "code"),
    [
        ("qnn", "g (float[1,2,4] x) => (float[1,2,4] y) { y = Relu (x) }", ""),
        ("qnn", "g (float[n,2,4] x) => (float[n,2,4] y) { y = Relu (x) }", DYNAMIC),
        ("qnn", "g (float[1,2,4,4] x) => (float[1,2,4,4] y) { y = Erf (x) }", "not-listed"),
        ("webgpu", "g (float[n,2,4] x) => (float[n,2,4] y) { y = Relu (x) }", ""),
        ("webgpu", "g (int64[1,2,4] x) => (int64[1,2,4] y) { y = Add (x, x) }", "refused"),
        ("webgpu", "g (float[1,2,4] x) => (float[1,2,4] y) { y = Mod <fmod = 1> (x, x) }", "not-listed"),
        ("webgpu", "g (float[2,4] x) => (int64[2,4] y) { y = Cast <to = 7> (x) }", ""),
        ("webgpu", "g (float[2,4] x) => (double[2,4] y) { y = Cast <to = 11> (x) }", "refused"),
        ("qnn", "g (float[2,4] x) => (int32[2,4] y) { y = Cast <to = 6> (x) }", ""),
        ("qnn", "g (float[2,4] x) => (int64[2,4] y) { y = Cast <to = 7> (x) }", "refused"),
        ("xnnpack", "g (float[n,1,8,8] x) => (float[n,1,8,8] y) <float[1,1,1,1] w = {1}> { y = Conv (x, w) }", ""),
        ("xnnpack", "g (float[1,1,8,w] x) => (float[1,1,8,l] y) { y = MaxPool<kernel_shape=[1,2]>(x) }", DYNAMIC),
        ("xnnpack", "g (float[1,4,8,8] x, float[1,4,1,1] w) => (float[1,1,8,8] y) { y = Conv (x, w) }", "not-constant"),
        ("xnnpack", "g (float[2,4] x) => (float[2,4] y) { y = Softmax <axis = 0> (x) }", "attribute"),
        ("xnnpack", "g (float[1,4,8,8] x) => (float[1,4,8,8] y) { y = MaxPool <kernel_shape=[1,1]> (x) }", "attribute"),
        ("xnnpack", "g (float[1,4,8,8] x) => (float[1,4,8,8] y) { y = Relu (x) }", "neighbour"),
        ("qnn", "g (bool[2,4] x) => (float[2,4] y) { y = Cast <to = 1> (x) }", ""),
    ],
)  # fmt: skip
def test_answers_of_providers_that_were_probed(provider: str, graph: str, code: str, tmp_path: Path) -> None:
    model = parsed(graph, tmp_path)
    (node,) = model.graph
    found = partition(model, support.find(provider)).left.get(node)
    assert (found.code if found is not None else "") == code


@pytest.mark.parametrize(
    ("first", "taken"),
    [("Conv (x, w)", True), ("MaxPool <kernel_shape = [2,2]> (x)", True), ("ConvTranspose (x, w)", False)],
)
def test_xnnpack_takes_an_activation_up_behind_some_nodes(first: str, taken: bool, tmp_path: Path) -> None:
    graph = f"g (float[1,1,8,8] x) => (float[1,1,h,l] y) <float[1,1,1,1] w = {{1}}> {{ a = {first} y = Relu (a) }}"
    found = partition(parsed(graph, tmp_path), support.find("xnnpack"))
    assert {node.op_type for node in found.left} == (set() if taken else {"Relu"})
    assert found.release == "1.16.3"
