"""``.pt2`` files of attackers: what is on no list is refused by name, and what PyTorch gets holds nothing else."""

from __future__ import annotations

import copy
import io
import json
import pickle
import struct
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from ortune.sources.exported_archive import write_checked
from ortune.sources.exported_operators import is_allowed
from ortune.sources.source import SourceRefused

DEFAULTS = (
    '[1, {"type": "collections.defaultdict", "context": {"default_factory_module": "builtins", '
    '"default_factory_name": "list", "dict_context": ["a", "b"]}, "children_spec": []}]'
)
SPEC = '[1, {"type": "builtins.dict", "context": "[\\"first part\\"]", "children_spec": []}]'
NODE = {
    "target": "torch.ops.aten.add.Tensor",
    "inputs": [{"name": "self", "arg": {"as_tensor": {"name": "x"}}, "kind": 1}],
    "outputs": [{"as_tensor": {"name": "add_1"}}],
    "metadata": {"stack_trace": 'File "model.py", line 3, in forward: x = f("x")'},
    "name": "add_1",
}
PROGRAM = {
    "graph_module": {
        "graph": {"nodes": [NODE], "inputs": [{"as_tensor": {"name": "x"}}], "tensor_values": {"x": {}}},
        "signature": {"input_specs": [{"parameter": {"arg": {"name": "p_0"}, "parameter_name": "0.layer-1.weight"}}]},
        "module_call_graph": [
            {"fqn": "", "signature": {"in_spec": SPEC, "out_spec": DEFAULTS, "forward_arg_names": ["x"]}}
        ],
    },
    "range_constraints": {"s31": {"min_val": 0, "max_val": None}},
    "guards_code": ["L['x'].size()[0] >= 2"],
}  # fmt: skip


def tensors() -> bytes:
    """What torch.save writes, as far as it is looked at: an archive of stored entries."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        archive.writestr("archive/data.pkl", b"tensors")
    return buffer.getvalue()


def entries(program: Any = PROGRAM) -> dict[str, bytes]:
    return {
        "net/models/model.json": json.dumps(program).encode(),
        "net/archive_format": b"pt2",
        "net/.data/version": b"3\n",
        "net/data/weights/weight_0": b"\0" * 64,
        "net/data/weights/model_weights_config.json": b'{"config": {"0.layer-1.weight": {"path_name": "weight_0"}}}',
        "net/data/sample_inputs/model.pt": tensors(),
        "net/extra/notes.txt": b"__import__('os')",
    }


def written(place: Path, held: dict[str, bytes], compression: int = zipfile.ZIP_STORED) -> Path:
    with zipfile.ZipFile(place, "w", compression) as archive:
        for name, data in held.items():
            archive.writestr(name, data)
    return place


def test_an_ordinary_file_is_written_again_without_notes_and_guards(tmp_path: Path) -> None:
    source = written(tmp_path / "net.pt2", entries())
    write_checked(str(source), str(tmp_path / "checked.pt2"))
    with zipfile.ZipFile(tmp_path / "checked.pt2") as archive:
        names = set(archive.namelist())
        program = json.loads(archive.read("model/models/model.json"))
        assert archive.read("model/data/weights/weight_0") == b"\0" * 64
    assert names == {name.replace("net/", "model/") for name in entries()} - {"model/extra/notes.txt"}
    expected = copy.deepcopy(PROGRAM)
    expected["guards_code"], expected["graph_module"]["graph"]["nodes"][0]["metadata"] = [], {}  # type: ignore[index]
    assert program == expected


def changed(change: Callable[[dict[str, Any]], None]) -> dict[str, bytes]:
    program = copy.deepcopy(PROGRAM)
    change(program)
    return entries(program)


def graph(program: dict[str, Any]) -> dict[str, Any]:
    return program["graph_module"]["graph"]


CALL = "x=__import__('os').system('true')"
SPECS = {
    "a key": '[1, {"type": "builtins.dict", "context": "[\\"a\': f(), \'b\\"]"}]',
    "a key within": '[1, {"type": "builtins.dict", "context": "[\\"[\\\\\\"f()\\\\\\"]\\"]"}]',
    "damaged": "[1, ",
    "a factory": (
        '[1, {"type": "collections.defaultdict", "context": {"default_factory_module": "antigravity", '
        '"default_factory_name": "geohash", "dict_context": ["a"]}, "children_spec": []}]'
    ),
    "a factory of no list": (
        '[1, {"type": "collections.defaultdict", "context": {"default_factory_module": "builtins", '
        '"default_factory_name": "breakpoint", "dict_context": ["a"]}, "children_spec": []}]'
    ),
    "a factory without a name": (
        '[1, {"type": "collections.defaultdict", "context": {"default_factory_module": "builtins", '
        '"default_factory_name": [], "dict_context": ["a"]}, "children_spec": []}]'
    ),
    "an enumeration": (
        '[1, {"type": "builtins.dict", "context": "[{\\"__enum__\\": true, \\"fqn\\": \\"os:environ\\", '
        '\\"name\\": \\"HOME\\"}]", "children_spec": []}]'
    ),
}
TOLD = {
    "a factory": "antigravity.geohash",
    "a factory of no list": "breakpoint",
    "an enumeration": "os:environ",
}
"""What the file would make torch import."""
PROGRAMS: dict[str, tuple[Callable[[dict[str, Any]], Any], str]] = {
    "a file as memory": (lambda p: graph(p)["nodes"][0].update(target="torch.ops.aten.from_file.default"), "from_file"),
    "torchvision's writer": (
        lambda p: graph(p)["nodes"][0].update(target="torch.ops.image.write_file.default"), "write_file",
    ),
    "an attribute": (lambda p: graph(p)["nodes"][0].update(target="torch.os.getpid"), "torch.os.getpid"),
    "a caller": (lambda p: graph(p)["nodes"][0].update(target="_operator.call"), "_operator.call"),
    "an extension": (lambda p: graph(p)["nodes"][0].update(target="#pickle:x"), "#pickle"),
    "an operator as argument": (
        lambda p: graph(p)["nodes"][0]["inputs"].append({"name": "op", "arg": {"as_operator": "torch.ops.aten.save"}}),
        "aten.save",
    ),
    "an input's name": (lambda p: graph(p)["inputs"][0]["as_tensor"].update(name=CALL), "__import__"),
    "a node's name": (lambda p: graph(p)["nodes"][0].update(name="a.b"), "a.b"),
    "an argument's name": (
        lambda p: p["graph_module"]["module_call_graph"][0]["signature"].update(forward_arg_names=[CALL]), "__import__",
    ),
    "a name in lists": (lambda p: p["graph_module"].update(other=[[[CALL]]]), "__import__"),
    "a key": (lambda p: graph(p)["tensor_values"].update({CALL: {}}), "__import__"),
    "a parameter": (
        lambda p: p["graph_module"]["signature"]["input_specs"][0]["parameter"].update(parameter_name='a"), f("'), "f(",
    ),
    "a size": (lambda p: p.update(size={"as_expr": {"expr_str": "__import__('os').getpid()"}}), "__import__"),
    "a power without end": (lambda p: p.update(size={"as_expr": {"expr_str": "9**9**9**9"}}), "9**9**9**9"),
    "a large shift": (lambda p: p.update(size={"as_expr": {"expr_str": "LShift(1, 10**12)"}}), "LShift"),
    "a product as exponent": (
        lambda p: p.update(size={"as_expr": {"expr_str": "9**(60*60*60*60*60*60)"}}), "9**(60",
    ),
    "powers of powers": (lambda p: p.update(size={"as_expr": {"expr_str": "((((9**64)**64)**64)**64)"}}), "9**64"),
    "a size by text": (lambda p: p.update(size={"as_expr": {"expr_str": "Lambda('x', 'f()')"}}), "Lambda"),
    **{
        f"the form of arguments, {name}": (
            lambda p, spec=spec: p["graph_module"]["module_call_graph"][0]["signature"].update(in_spec=spec),
            TOLD.get(name, ""),
        )
        for name, spec in SPECS.items()
    },
}  # fmt: skip


@pytest.mark.parametrize(
    "text",
    ["Pow(10, e=1000000000)", "Pow(10, Integer(1/1e-9))", "Pow(10, Integer(1/Rational(1, 60)))", "Pow(10, 1.5)",
     f"Pow({10**60}, 60)", f"Pow(Pow(Pow({10**18}, 60), 60), 60)", "Pow(Pow(s0, 60), 60)",
     "10**(1000000000j*1000000000j)", "10**(1//(pi - E))", "10**(" + "*".join(["((s0 + s0)/s0)"] * 40) + ")",
     "LShift(1, shift=1000000000)", "Pow(10, 2, 3)", "Integer(1e999999999)", "sqrt(Float(2, 1000000000))",
     "Float(2, precision=1000000000)", "10**(" + "-" * 500 + "1000)", f"9**{10**400}"],
)  # fmt: skip
def test_a_number_that_takes_forever_to_compute_is_refused(tmp_path: Path, text: str) -> None:
    held = changed(lambda program: program.update(size={"as_expr": {"expr_str": text}}))
    with pytest.raises(SourceRefused, match="code instead of a size"):
        write_checked(str(written(tmp_path / "net.pt2", held)), str(tmp_path / "checked.pt2"))


@pytest.mark.parametrize("name", PROGRAMS)
def test_a_program_with_code_or_an_unlisted_operator_is_refused_by_name(tmp_path: Path, name: str) -> None:
    change, told = PROGRAMS[name]
    source = written(tmp_path / "net.pt2", changed(change))
    with pytest.raises(SourceRefused) as error:
        write_checked(str(source), str(tmp_path / "checked.pt2"))
    assert told in error.value.what and error.value.do


@pytest.mark.parametrize(
    "text", ["Symbol('s0')**2", "Pow(Add(Symbol('s0', positive=True), Integer(-1)), Integer(2))", "2**Symbol('s0')",
             "FloorDiv(Symbol('s0'), 2)", "Pow(Symbol('s0'), Rational(1, 2))",
             "Pow(Pow(Symbol('s0'), Integer(2)), Rational(1, 2))", "s0**0.5", "PowByNatural(2, FloorDiv(s0, 2))",
             "Pow(Symbol('s0', integer=True), Integer(-1))", "LShift(1, Symbol('s0') + Symbol('s1') - 3)"],
)  # fmt: skip
def test_ordinary_sizes_are_arithmetic(tmp_path: Path, text: str) -> None:
    held = changed(lambda program: program.update(size={"as_expr": {"expr_str": text}}))
    write_checked(str(written(tmp_path / "net.pt2", held)), str(tmp_path / "checked.pt2"))


@pytest.mark.parametrize("numbers", [(1 << 24, 1 << 25), (1 << 50, -1), (10**4000, 1), (-(1 << 50), 3)])
def test_a_tensor_that_no_machine_holds_is_refused_before_it_is_computed(
    numbers: tuple[int, int], tmp_path: Path
) -> None:
    one, other = numbers
    sizes = [{"as_int": one}, {"as_expr": {"expr_str": "Symbol('s0')"}}, {"as_int": other}]

    def huge(program: dict[str, Any]) -> None:
        graph(program)["tensor_values"]["expand"] = {"dtype": 7, "sizes": sizes}

    with pytest.raises(SourceRefused, match=r"1e\d+ elements.*'expand' of shape"):
        write_checked(str(written(tmp_path / "huge.pt2", changed(huge))), str(tmp_path / "copy.pt2"))


@pytest.mark.parametrize(
    ("name", "data"),
    [
        ("net/data/aotinductor/model/a.so", b"\x7fELF"),
        ("net/x/models/data/aotinductor/models/a.so", b"\x7fELF"),
        ("net/models/other.json", b"{}"),
        ("net/data/weights/../../../a", b"x"),
        ("net/data/constants/custom_obj_0", b"x"),
        ("net/data/executorch/a", b"x"),
        ("other/models/model.json", b"{}"),
        ("net/data/sample_inputs/other.pt", b"x"),
        ("net/data/constants/tensor_0\n", b"x"),
    ],
)
def test_an_entry_on_no_list_is_refused(tmp_path: Path, name: str, data: bytes) -> None:
    source = written(tmp_path / "net.pt2", {**entries(), name: data})
    with pytest.raises(SourceRefused):
        write_checked(str(source), str(tmp_path / "checked.pt2"))


def test_a_pickle_and_what_unpacks_is_refused(tmp_path: Path) -> None:
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as inner:
        inner.writestr("archive/data.pkl", bytes(1 << 20))
    files = {
        "pickle": written(tmp_path / "pickle", {**entries(), "net/data/sample_inputs/model.pt": pickle.dumps([1])}),
        "within": written(tmp_path / "within", {**entries(), "net/data/sample_inputs/model.pt": packed.getvalue()}),
        "packed": written(
            tmp_path / "packed", {**entries(), "net/data/weights/weight_1": bytes(1 << 22)}, zipfile.ZIP_DEFLATED
        ),
        "overlapping": tmp_path / "overlapping",
    }  # fmt: skip
    # Many names in the directory for the same bytes.
    with zipfile.ZipFile(files["overlapping"], "w") as archive:
        for name, data in entries().items():
            archive.writestr(name, data)
        archive.writestr("net/data/weights/weight_1", bytes(1 << 16))
        last = archive.infolist()[-1]
        for number in range(2, 40):
            twin = copy.copy(last)
            twin.filename = f"net/data/weights/weight_{number}"
            archive.filelist.append(twin)
            archive.NameToInfo[twin.filename] = twin
    for name, source in files.items():
        with pytest.raises(SourceRefused) as error:
            write_checked(str(source), str(tmp_path / "checked.pt2"))
        assert error.value.what, name


def test_of_two_archives_in_one_file_one_is_checked_and_passed_on(tmp_path: Path) -> None:
    """A reader that takes the other directory would find a library."""
    evil = written(
        tmp_path / "evil", {**entries(), "net/data/aotinductor/model/a.so": b"\x7fELF"}
    ).read_bytes()
    plain = written(tmp_path / "plain", entries()).read_bytes()
    for number, data in enumerate(
        (evil + plain, plain + evil, plain + struct.pack("<I", 0x06054B50) + bytes(18))
    ):
        source, target = tmp_path / f"{number}.pt2", tmp_path / f"{number}.checked"
        source.write_bytes(data)
        try:
            write_checked(str(source), str(target))
        except (SourceRefused, zipfile.BadZipFile):
            continue
        assert b"\x7fELF" not in target.read_bytes()


def test_operators_of_ordinary_models_are_on_the_list() -> None:
    for target in (
        "torch.ops.aten.conv2d.default", "torch.ops.aten.add_.Tensor", "torch.ops.aten.__or__.Tensor",
        "torch.ops.aten._to_copy.default", "torch.ops.aten.lift_fresh_copy.default", "torch.ops.aten.sym_size.int",
        "torch.ops.aten._assert_scalar.default", "torch.ops.aten.fft_rfft.default", "torch.ops.aten.bernoulli.p",
        "torch.ops.aten.embedding_bag.padding_idx", "torch.ops.higher_order.cond", "_operator.getitem", "torch.sym_max",
        "torch._sym_sqrt", "math.ceil", "torch.ops.torchvision.nms.default", "torch.ops.onnx.RotaryEmbedding.opset23",
        "torch.ops.quantized_decomposed.quantize_per_tensor.default",
    ):  # fmt: skip
        assert is_allowed(target), target
    for target in (
        "torch.ops.aten.from_file",
        "torch.ops.aten.save.default",
        "torch.ops.mine.op.default",
        "os.system",
    ):
        assert not is_allowed(target), target
