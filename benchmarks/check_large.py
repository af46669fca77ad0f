"""What ``ortune check`` takes: time and memory on 1,000 nodes, and on 20,000 with two gigabytes of weights.

    python benchmarks/check_large.py [FOLDER]

Each model is checked by a process of its own, three times; the least times and the most memory are told. Bytecode is
kept, as installing a package does. The folder needs six gigabytes, and is filled once.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import onnx
from onnx import TensorProto, helper

LARGE_NODES, LARGE_BYTES = 20_000, 1_990_000_000
TIMES = 3
_OPS = ("MatMul", "Add", "Sigmoid", "Mul")  # of a layer: x * sigmoid(x w + b)


def graph_of(n_nodes: int, width: int) -> tuple[onnx.GraphProto, list[tuple[str, tuple[int, ...]]]]:
    """A chain of gated layers without their weights, and what these are."""
    nodes, weights, x = [], [], "x"
    for layer in range(n_nodes // len(_OPS)):
        weights += [(f"w{layer}", (width, width)), (f"b{layer}", (width,))]
        names = [f"{op.lower()}_{layer}" for op in _OPS]
        inputs = [(x, f"w{layer}"), (names[0], f"b{layer}"), (names[1],), (names[1], names[2])]
        for op, name, given in zip(_OPS, names, inputs, strict=True):
            nodes.append(helper.make_node(op, list(given), [name], name=f"/layers.{layer}/{op}"))
        x = names[-1]
    sides = [helper.make_tensor_value_info(name, TensorProto.FLOAT, ["batch", width]) for name in ("x", x)]
    return helper.make_graph(nodes, "g", sides[:1], sides[1:]), weights


def write(path: Path, n_nodes: int, n_bytes: int, *, external: bool) -> Path:
    """Writes it as it is made: protobuf itself would take the memory twice."""
    if path.exists():
        return path
    width = max(8, round((n_bytes / 4 / (n_nodes // len(_OPS))) ** 0.5))
    graph, weights = graph_of(n_nodes, width)
    rng = np.random.default_rng(0)
    head = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    rest = graph.SerializeToString()
    head.ClearField("graph")
    tensors, offset = [], 0
    for name, shape in weights:
        size = 4 * int(np.prod(shape))
        tensor = TensorProto(name=name, dims=shape, data_type=TensorProto.FLOAT)
        if external:
            tensor.data_location = TensorProto.EXTERNAL
            for key, value in (("location", f"{path.name}.data"), ("offset", offset), ("length", size)):
                tensor.external_data.add(key=key, value=str(value))
        offset += size
        tensors.append((tensor.SerializeToString(), size))
    fields = [_field(5, len(t) + (0 if external else len(_field(9, size)) + size)) for t, size in tensors]
    body = sum(
        len(f) + len(t) + (0 if external else len(_field(9, s)) + s)
        for f, (t, s) in zip(fields, tensors, strict=True)
    )
    part = path.with_suffix(".part")
    with part.open("wb") as file, path.with_name(f"{path.name}.data").open("wb") as data:
        file.write(head.SerializeToString() + _field(7, len(rest) + body) + rest)
        for field, (message, size) in zip(fields, tensors, strict=True):
            values = (0.02 * rng.standard_normal(size // 4, dtype=np.float32)).tobytes()
            file.write(field + message)
            if not external:
                file.write(_field(9, size))
            (data if external else file).write(values)
    if not external:
        path.with_name(f"{path.name}.data").unlink()
    part.rename(path)
    return path


def _field(number: int, length: int) -> bytes:
    """The head of a field of so many bytes."""
    found = bytearray([number << 3 | 2])
    while length >= 0x80:
        found.append(length & 0x7F | 0x80)
        length >>= 7
    return bytes([*found, length])


def check(model: Path, bytecode: Path) -> tuple[float, float, float]:
    """Seconds, CPU seconds and megabytes of one check, the start of the interpreter included."""
    started = time.perf_counter()
    code = (
        "import resource, sys; from ortune.cli.main import main\n"
        "try: main()\n"
        "except SystemExit: pass\n"
        "used = resource.getrusage(resource.RUSAGE_SELF)\n"
        "print(used.ru_utime + used.ru_stime, used.ru_maxrss, file=sys.stderr)"
    )
    command = [sys.executable, "-c", code, "check", str(model), "--json"]
    kept = {name: text for name, text in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    kept["PYTHONPYCACHEPREFIX"] = str(bytecode)
    done = subprocess.run(command, capture_output=True, text=True, check=True, env=kept)
    *_, cpu_s, resident_kb = done.stderr.split()
    return time.perf_counter() - started, float(cpu_s), int(resident_kb) / 1024


def main() -> None:
    """Prints the table."""
    with TemporaryDirectory() as scratch:
        folder = Path(sys.argv[1]) if len(sys.argv) > 1 else Path(scratch)
        models = {
            "1,000 nodes, 4 MB": write(folder / "small.onnx", 1000, 4_000_000, external=False),
            "20,000 nodes, 2 GB in the file": write(folder / "inline.onnx", LARGE_NODES, LARGE_BYTES, external=False),
            "20,000 nodes, 2 GB beside it": write(folder / "beside.onnx", LARGE_NODES, LARGE_BYTES, external=True),
        }  # fmt: skip
        print("| model | seconds | CPU seconds | memory (MB) |\n|---|---|---|---|")
        for name, model in models.items():
            found = [check(model, Path(scratch) / "bytecode") for _ in range(TIMES)]
            wall, cpu, resident = zip(*found, strict=True)
            print(f"| {name} | {min(wall):.2f} | {min(cpu):.2f} | {max(resident):.0f} |", flush=True)


if __name__ == "__main__":
    main()
