"""Small files that ask for a lot of time or memory: counted first, and refused with one clear error."""

from __future__ import annotations

import io
import json
import struct
import zipfile
from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

from box import save_graph
from limited import limited
from onnx_text import assemble
from ortune.engines.locks import file as lock_file
from ortune.errors import InputError, ModelError, UsageError
from ortune.graph.cost.totals import costs
from ortune.graph.model.open import open_model
from ortune.graph.outputs import output_comparisons
from ortune.inputs import user_feeds, workload
from ortune.inputs.feeds import make_feeds
from ortune.measuring.plans import read_plan
from ortune.trace.attribution import attribute
from ortune.trace.read import read_trace

DEEP = "[" * 100_000 + "]" * 100_000


def function(name: str, body: list[str]) -> onnx.FunctionProto:
    """A function of one value that calls others, one after another."""
    values = ["x", *(f"v{i}" for i in range(len(body) - 1)), "y"]
    nodes = [
        helper.make_node(op, [values[i]], [values[i + 1]], domain="" if op == "Relu" else "f")
        for i, op in enumerate(body)
    ]
    return helper.make_function("f", name, ["x"], ["y"], nodes, [helper.make_opsetid("", 17)])


def with_functions(path: Path, functions: list[onnx.FunctionProto]) -> Path:
    onnx.save(
        assemble(
            [helper.make_node(functions[-1].name, ["x"], ["y"], domain="f")],
            "float[4] x",
            "float[4] y",
            ir_version=9,
            opsets={"f": 1},
            functions=functions,
        ),
        path,
    )
    return path


def doubling(path: Path, levels: int = 32) -> Path:
    """Each of so many functions calls the one before twice."""
    named = [function("f0", ["Relu"]), *(function(f"f{i}", [f"f{i - 1}"] * 2) for i in range(1, levels + 1))]
    return with_functions(path, named)


def chained(path: Path) -> Path:
    """Each of 3000 functions calls the one before."""
    return with_functions(
        path, [function("f0", ["Relu"]), *(function(f"f{i}", [f"f{i - 1}"]) for i in range(1, 3000))]
    )


def endless(path: Path) -> Path:
    """Two functions that call each other."""
    return with_functions(path, [function("f0", ["f1"]), function("f1", ["f0"])])


def nested_loops(path: Path, depth: int = 24) -> Path:
    """Loops in loops; each begins anew, and hands on what it makes, which is longer every time."""

    def body(level: int) -> onnx.GraphProto:
        inside = [
            helper.make_node("Loop", ["trips", "", "one"], [f"b{level}"], body=body(level + 1))
            if level < depth
            else helper.make_node("Relu", [f"a{level}"], [f"b{level}"]),
            helper.make_node("Concat", [f"a{level}", "x"], [f"c{level}"], axis=0),
            helper.make_node("Identity", [f"go{level}"], [f"on{level}"]),
        ]
        return helper.make_graph(
            inside,
            f"body{level}",
            [
                helper.make_tensor_value_info(f"i{level}", TensorProto.INT64, []),
                helper.make_tensor_value_info(f"go{level}", TensorProto.BOOL, []),
                helper.make_tensor_value_info(f"a{level}", TensorProto.FLOAT, None),
            ],
            [
                helper.make_tensor_value_info(f"on{level}", TensorProto.BOOL, []),
                helper.make_tensor_value_info(f"c{level}", TensorProto.FLOAT, None),
            ],
        )

    trips = helper.make_tensor("trips", TensorProto.INT64, [], [3])
    one = helper.make_tensor("one", TensorProto.FLOAT, [1], [1])
    loop = helper.make_node("Loop", ["trips", "", "one"], ["y"], body=body(0))
    save_graph(path, [loop], [4], [trips, one])
    return path


@pytest.mark.parametrize("make", [doubling, chained, endless, nested_loops])
def test_graph_that_grows_without_end_is_refused(make: Callable[[Path], Path], tmp_path: Path) -> None:
    def walk() -> None:
        model = open_model(make(tmp_path / "m.onnx")).ir
        output_comparisons(model)
        costs(model, {})

    ended = limited(walk)
    assert isinstance(ended.error, ModelError), ended
    assert "m.onnx" in ended.error.where
    assert ended.error.do


def test_functions_that_take_long_to_write_out_are_not_counted(tmp_path: Path) -> None:
    ended = limited(lambda: costs(open_model(doubling(tmp_path / "m.onnx", 12)).ir, {}).unknown)
    ((reason, n_nodes),) = ended.value.items()
    assert (reason.split()[-1], n_nodes) == ("f.f12", 1), ended


def squares(path: Path) -> Path:
    """A size that is squared sixty times."""
    two = helper.make_tensor("v0", TensorProto.INT64, [1], [3])
    nodes = [helper.make_node("Mul", [f"v{i}", f"v{i}"], [f"v{i + 1}"]) for i in range(60)]
    nodes += [helper.make_node("Expand", ["x", "v60"], ["e"]), helper.make_node("Relu", ["e"], ["y"])]
    save_graph(path, nodes, ["n"], [two])
    return path


def tiles(path: Path) -> Path:
    """A tensor that is made larger sixty times."""
    many = helper.make_tensor("many", TensorProto.INT64, [1], [1 << 62])
    nodes = [helper.make_node("Tile", [f"v{i}" if i else "x", "many"], [f"v{i + 1}"]) for i in range(60)]
    save_graph(path, [*nodes, helper.make_node("Relu", ["v60"], ["y"])], [4], [many])
    return path


@pytest.mark.parametrize("make", [squares, tiles])
def test_sizes_beyond_every_number_are_unknown(make: Callable[[Path], Path], tmp_path: Path) -> None:
    def walk() -> int:
        model = open_model(make(tmp_path / "m.onnx")).ir
        workload.propose(model)
        return costs(model, {}).flops

    ended = limited(walk)
    assert ended.error is None and isinstance(ended.value, int), ended
    assert ended.value < 1 << 63


@pytest.mark.parametrize("shape", [[13 * 10**8], [1, 3, 1 << 20, 1 << 20], [1 << 40] * 3])
def test_input_that_no_memory_holds_is_refused_before_it_is_made(shape: list[int], tmp_path: Path) -> None:
    save_graph(tmp_path / "m.onnx", [helper.make_node("Relu", ["x"], ["y"])], shape)

    def make() -> None:
        model = open_model(tmp_path / "m.onnx").ir
        make_feeds(model, workload.propose(model).cases[0], seed=0)

    error = limited(make).error
    assert isinstance(error, InputError), error
    assert "'x'" in error.where and "x".join(map(str, shape)) in error.what
    assert "--shape" in error.do and "--inputs" in error.do


def npy_that_claims(path: Path) -> Path:
    """An array of terabytes by its header, and no data."""
    with path.open("wb") as file:
        header = {"descr": "<f4", "fortran_order": False, "shape": (1 << 40,)}
        np.lib.format.write_array_header_1_0(file, header)
        file.write(b"\0" * 64)
    return path


def npz_that_claims(path: Path) -> Path:
    inner = npy_that_claims(path.with_name("x.npy"))
    with zipfile.ZipFile(path, "w") as archive:
        archive.write(inner, "x.npy")
    return path


def zip_bomb(path: Path) -> Path:
    """Arrays of zeros in an archive that is a thousand times smaller than they are."""
    packed = io.BytesIO()
    with (
        zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as archive,
        archive.open("x.npy", "w") as file,
    ):
        header = {"descr": "<f4", "fortran_order": False, "shape": (16 << 20,)}
        np.lib.format.write_array_header_1_0(file, header)
        file.write(bytes(64 << 20))
    data, name, n = packed.getvalue(), b"x.npy", 1000
    local, rest = data[: data.index(b"PK\1\2")], data[data.index(b"PK\1\2") : data.index(b"PK\5\6")]
    with path.open("wb") as file:
        directory = b""
        for i in range(n):
            entry = bytearray(rest)
            entry[42:46] = file.tell().to_bytes(4, "little")
            own = b"%05d" % i
            directory += bytes(entry).replace(name, own, 1)
            file.write(local.replace(name, own, 1))
        at = file.tell()
        file.write(directory)
        file.write(struct.pack("<4s4H2IH", b"PK\5\6", 0, 0, n, n, len(directory), at, 0))
    return path


def pb_that_claims(path: Path) -> Path:
    path.mkdir()
    tensor = onnx.TensorProto(data_type=TensorProto.FLOAT, dims=[1 << 40], raw_data=b"1234")
    (path / "input_0.pb").write_bytes(tensor.SerializeToString())
    return path


@pytest.mark.parametrize(
    ("make", "name"),
    [
        (npy_that_claims, "x.npy"),
        (npz_that_claims, "x.npz"),
        (pb_that_claims, "set"),
        (zip_bomb, "x.npz"),
    ],
)
def test_inputs_that_claim_more_than_they_hold_are_refused(
    make: Callable[[Path], Path], name: str, tmp_path: Path
) -> None:
    save_graph(tmp_path / "m.onnx", [helper.make_node("Relu", ["x"], ["y"])], ["n"])
    error = limited(lambda: user_feeds.load(make(tmp_path / name), open_model(tmp_path / "m.onnx").ir)).error
    assert isinstance(error, InputError), error
    assert name in error.where


@pytest.mark.parametrize(
    "read",
    [
        read_plan,
        workload.load,
        lambda path: lock_file.read(path, "m.onnx"),
        read_trace,
    ],
)
def test_json_nested_without_end_is_refused(read: Callable[[Path], object], tmp_path: Path) -> None:
    for text in (DEEP, '{"settings": ' + DEEP + "}", '{"unknown": ' + DEEP + "}", '{"a":' * 100_000):
        (tmp_path / "x.json").write_text(text)
        error = limited(read, tmp_path / "x.json").error
        assert isinstance(error, UsageError), (text[:20], error)


def test_names_that_patterns_would_read_for_ever(tmp_path: Path) -> None:
    long = 400_000
    for name in ("dyn" + "1" * long + "!", "past" * long, "1+" * long + "1", "(" * long, "a\0b + 1"):
        save_graph(tmp_path / "m.onnx", [helper.make_node("Relu", ["x"], ["y"])], [name])
        ended = limited(lambda: workload.propose(open_model(tmp_path / "m.onnx").ir).seed)
        assert ended.value == 0, (name[:10], ended)


def test_trace_of_more_nodes_and_runs_than_a_table_holds_is_refused(tmp_path: Path) -> None:
    n = 20_000
    with (tmp_path / "t.json").open("w") as file:
        file.write('[{"cat":"Session","name":"model_loading_uri","ts":0,"dur":1,"args":{}}')
        for i in range(n):
            args = {"op_name": "Relu", "provider": "CPUExecutionProvider", "node_index": str(i)}
            node = {
                "cat": "Node",
                "name": f"n{i}_kernel_time",
                "ts": 10 * i,
                "dur": 1,
                "tid": 1,
                "args": args,
            }
            run = {"cat": "Session", "name": "model_run", "ts": 10 * i, "dur": 9, "tid": 1, "args": {}}
            file.write(f",\n{json.dumps(node)},\n{json.dumps(run)}")
        file.write("\n]")

    def told() -> None:
        trace = read_trace(tmp_path / "t.json")
        attribute(trace, range(trace.n_runs))

    error = limited(told).error
    assert isinstance(error, UsageError), error


def test_trace_on_one_endless_line_is_refused(tmp_path: Path) -> None:
    with (tmp_path / "t.json").open("wb") as file:
        file.write(b'[{"cat": "Node", "name": "')
        file.seek(6 << 30)  # a hole takes no room on the disk
        file.write(b'"}]')
    error = limited(read_trace, tmp_path / "t.json").error
    assert isinstance(error, UsageError), error
