"""Inputs as anybody may have saved them: each is fed, or refused by one clear error; none names another file."""

from __future__ import annotations

import json
import zipfile
from collections.abc import Callable
from pathlib import Path

import ml_dtypes
import numpy as np
import onnx
import onnx_ir as ir
import pytest
from onnx import TensorProto as T
from onnx import helper as h
from onnx import numpy_helper

from facts import facts
from onnx_text import assemble
from ortune.cli import main
from ortune.errors import InputError
from ortune.inputs import feed_files, user_feeds, workload

FLOATS = np.arange(6, dtype=np.float32).reshape(2, 3)


def net(kind: onnx.TypeProto) -> onnx.ModelProto:
    nodes = [h.make_node("Identity", ["x"], ["y"])]
    return assemble(nodes, [h.make_value_info("x", kind)], [h.make_value_info("y", kind)], ir_version=9)


def tensor(dtype: int) -> onnx.ModelProto:
    return net(h.make_tensor_type_proto(dtype, ["n", 3]))


SEQUENCE = net(h.make_sequence_type_proto(h.make_tensor_type_proto(T.FLOAT, None)))
OPTIONAL = net(h.make_optional_type_proto(h.make_tensor_type_proto(T.FLOAT, ["n", 3])))


def fed(path: Path, model: onnx.ModelProto, folder: Path) -> object:
    """What the model is fed, as a worker reads it."""
    (feeds,) = user_feeds.load(path, ir.from_proto(model))
    workload.propose(ir.from_proto(model), inputs_path=path)
    feed_files.write_feeds(folder / "fed", feeds)
    return feed_files.read_feeds(folder / "fed")["x"]


@pytest.mark.parametrize("dtype", [">f4", ">f8", ">i8", ">i2", ">u4", ">f2"])
@pytest.mark.parametrize("suffix", [".npy", ".npz"])
def test_the_other_byte_order_is_read(tmp_path: Path, dtype: str, suffix: str) -> None:
    values, path = FLOATS.astype(dtype), tmp_path / f"in{suffix}"
    np.save(path, values) if suffix == ".npy" else np.savez(path, x=values)
    wanted = ir.DataType.from_numpy(values.dtype.newbyteorder("=")).value
    np.testing.assert_array_equal(fed(path, tensor(wanted), tmp_path), FLOATS)


def test_texts_as_bytes_and_in_the_other_byte_order_are_read(tmp_path: Path) -> None:
    for values in (np.array([["a", "ü", ""]]).astype(">U2"), np.array([[b"a", "ü".encode(), b""]])):
        np.save(tmp_path / "x.npy", values)
        assert fed(tmp_path / "x.npy", tensor(T.STRING), tmp_path).tolist() == [["a", "ü", ""]]  # type: ignore[attr-defined]


def archive(**members: bytes) -> Callable[[Path], None]:
    def write(path: Path) -> None:
        with zipfile.ZipFile(path, "w") as packed:
            for name, data in members.items():
                packed.writestr(name, data)

    return write


def array(values: object) -> Callable[[Path], None]:
    return lambda path: np.savez(path, x=np.asarray(values))


ODD: dict[str, tuple[Callable[[Path], None], str]] = {
    "dates": (array(np.zeros((2, 3), "M8[s]")), "it is datetime64"),
    "times": (array(np.zeros((2, 3), "m8[ns]")), "it is timedelta64"),
    "dates of the other byte order": (array(np.zeros((2, 3), ">M8[D]")), "it is datetime64"),
    "records": (array(np.zeros((2, 3), [("a", "<f4"), ("b", "<i2")])), "it is \\["),
    "records as long as a float": (array(np.zeros((2, 3), [("a", "<u2")])), "it is \\["),
    "no type": (array(np.zeros((2, 3), "V4")), "it is \\|V4"),
    "extended": (array(np.zeros((2, 3), np.longdouble)), "the model takes float"),
    "complex": (array(np.zeros((2, 3), np.complex64)), "it is complex64"),
    "extended complex": (array(np.zeros((2, 3), np.clongdouble)), "the model takes float"),
    "objects": (array(np.array([[{}, None, 1]] * 2)), "would run code"),
    "bytes": (array(np.array([[b"\xff", b"a", b"b"]])), "not strings"),
    "text": (array(np.array([["a", "b", "c"]])), "it is string"),
    "another rank": (array(np.zeros(3, np.float32)), "does not fit"),
    "no array": (archive(x=b"1 2 3"), "'x' is not an array"),
    "a note beside it": (archive(**{"x.npy": b"", "readme.txt": b"hello"}), "cannot be read|is not an array"),
    "an empty archive": (archive(), "no value for x"),
    "half of a header": (archive(**{"x.npy": b"\x93NUMPY\x01\x00"}), "cannot be read"),
    "a header of nonsense": (
        archive(**{"x.npy": b"\x93NUMPY\x01\x00\x10\x00{'descr':[()]}  \n"}),
        "cannot be read",
    ),
}


@pytest.mark.parametrize("name", ODD)
def test_what_no_model_takes_is_one_clear_error(tmp_path: Path, name: str) -> None:
    write, said = ODD[name]
    write(tmp_path / "in.npz")
    with pytest.raises(InputError, match=said):
        fed(tmp_path / "in.npz", tensor(T.FLOAT), tmp_path)
    with pytest.raises(InputError):
        fed(tmp_path / "in.npz", tensor(T.BFLOAT16), tmp_path)


def test_more_than_is_ever_fed_is_refused_before_it_is_read(tmp_path: Path) -> None:
    np.lib.format.open_memmap(tmp_path / "x.npy", mode="w+", dtype=">f4", shape=(1 << 38, 3))  # sparse
    with pytest.raises(InputError, match=r"it is 3072\.0 GiB, and at most 8 GiB are fed"):
        fed(tmp_path / "x.npy", tensor(T.FLOAT), tmp_path)


def sequence(elem_type: int, **parts: object) -> bytes:
    return onnx.SequenceProto(elem_type=elem_type, **parts).SerializeToString()  # type: ignore[arg-type]


ONE = numpy_helper.from_array(FLOATS)
ELSEWHERE = T(data_type=T.FLOAT, dims=[2, 3])
ELSEWHERE.data_location = T.EXTERNAL
ELSEWHERE.external_data.add(key="location", value="secret.bin")
UNTYPED = T(external_data=ELSEWHERE.external_data, data_location=T.EXTERNAL)
HALF = T(data_type=T.FLOAT, dims=[2, 3])
HALF.external_data.add(key="location", value="secret.bin")
PROTOS = {
    "a tensor elsewhere": ELSEWHERE.SerializeToString(),
    "a tensor elsewhere, of no type": UNTYPED.SerializeToString(),
    "a sequence elsewhere": sequence(1, tensor_values=[ELSEWHERE]),
    "the second of a sequence": sequence(1, tensor_values=[ONE, ELSEWHERE]),
    "half of a name": sequence(1, tensor_values=[HALF]),
    "a sequence of sequences": sequence(3, sequence_values=[onnx.SequenceProto(elem_type=1, tensor_values=[ONE])]),
    "of maps": sequence(4, map_values=[onnx.MapProto(key_type=T.INT64, keys=[1])]),
    "of sparse tensors": sequence(2, sparse_tensor_values=[onnx.SparseTensorProto(values=ONE, dims=[6])]),
    "of optionals": sequence(5, optional_values=[onnx.OptionalProto(elem_type=1, tensor_value=ONE)]),
    "of nothing known": sequence(77),
    "of tensors of no type": sequence(1, tensor_values=[T()]),
    "of tensors of a type to come": sequence(1, tensor_values=[T(data_type=99)]),
    "a negative size": T(data_type=1, dims=[-1], float_data=[1.0]).SerializeToString(),
    "sizes beyond memory": T(data_type=1, dims=[2**62, 2**62], raw_data=b"1234").SerializeToString(),
    "more than its bytes": T(data_type=1, dims=[5], raw_data=b"1234").SerializeToString(),
    "in segments": T(data_type=1, dims=[1], raw_data=b"1234", segment=T.Segment(begin=0, end=1)).SerializeToString(),
    "texts that are none": T(data_type=8, dims=[1, 3], string_data=[b"\xff", b"", b""]).SerializeToString(),
    "no message": b"\xff\xff\xff",
}  # fmt: skip


@pytest.mark.parametrize("name", PROTOS)
@pytest.mark.parametrize("model", [tensor(T.FLOAT), SEQUENCE, OPTIONAL, tensor(T.STRING)], ids=list("0123"))
def test_a_protobuf_is_fed_or_refused_and_reads_no_other_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, model: onnx.ModelProto
) -> None:
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    data = tmp_path / "data" / "test_data_set_0"
    data.mkdir(parents=True)
    for folder in (Path(), data):
        (folder / "secret.bin").write_bytes(FLOATS.tobytes())
    (data / "input_0.pb").write_bytes(PROTOS[name])
    with pytest.raises(InputError):
        fed(data.parent, model, tmp_path)


def test_a_sequence_of_tensors_is_fed(tmp_path: Path) -> None:
    (tmp_path / "input_0.pb").write_bytes(numpy_helper.from_list([FLOATS, FLOATS[:1]]).SerializeToString())
    found = fed(tmp_path, SEQUENCE, tmp_path)
    assert isinstance(found, list) and [each.shape for each in found] == [(2, 3), (1, 3)]


INDEX = {"version": 1, "feeds": [{"name": "x", "kind": "tensor", "onnx_type": "float", "files": ["0.npy"]}]}
CHANGES: dict[str, object] = {
    "kind": ["none", "sequence", "json", None, [], "\ud800"],
    "name": ["y", None, 7, "\ud800", ["x"]],
    "onnx_type": ["nothing", "int4", "uint4", "string", "undefined", None, 1e400, "float8e4m3fn"],
    "files": [[], [None], ["0.npy", "0.npy"], ["../0.npy"], ["\0"], "0.npy", 1e400, [[]], ["a" * 300], ["."]],
    "shape": [[1e400], [-1], [2**80], ["x"], [[1e400]], 1e400, [None], [[2, 3]], {}],
}


@pytest.mark.parametrize("model", [tensor(T.FLOAT), SEQUENCE, OPTIONAL, tensor(T.INT4)], ids=list("0123"))
def test_an_index_of_any_kind_is_read_or_refused(tmp_path: Path, model: onnx.ModelProto) -> None:
    np.save(tmp_path / "0.npy", FLOATS)
    texts = [
        json.dumps(INDEX),
        "null",
        "[]",
        "{}",
        "Infinity",
        '{"version": Infinity}',
        '{"version": 1, "feeds": [NaN]}',
        "[" * 10**5,
    ]
    for part, values in CHANGES.items():
        for value in values:  # type: ignore[attr-defined]
            for kind in ("tensor", "sequence"):
                entry = {**INDEX["feeds"][0], "kind": kind, part: value}  # type: ignore[index]
                texts += [json.dumps({"version": 1, "feeds": [entry]})]
                texts += [json.dumps({"version": 1, "feeds": [{**entry, "onnx_type": "int4"}]})]
    fine = 0
    for text in texts:
        (tmp_path / "feeds.json").write_text(text.replace("\\ud800", r"\ud800"))
        try:
            fed(tmp_path, model, tmp_path)
            fine += 1
        except InputError as error:
            f"{error}".encode()
    assert fine or model is not tensor(T.FLOAT)


def test_types_that_numpy_has_no_name_for_are_fed(tmp_path: Path) -> None:
    for dtype, kind in ((ml_dtypes.bfloat16, T.BFLOAT16), (ml_dtypes.float8_e4m3fn, T.FLOAT8E4M3FN)):
        np.savez(tmp_path / "in.npz", x=FLOATS.astype(dtype))
        np.testing.assert_array_equal(fed(tmp_path / "in.npz", tensor(kind), tmp_path), FLOATS.astype(dtype))


def test_the_command_says_it_with_exit_code_2(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    model = tensor(T.FLOAT)
    onnx.save(model, tmp_path / "m.onnx")
    np.save(tmp_path / "x.npy", np.zeros((2, 3), "M8[s]"))
    words = ["check", str(tmp_path / "m.onnx"), "--inputs", str(tmp_path / "x.npy")]
    assert main._run(words) == 2
    facts(capsys.readouterr().out, "datetime64[s]", "float")
    np.save(tmp_path / "x.npy", FLOATS.astype(">f4"))
    assert main._run(words) == 0
