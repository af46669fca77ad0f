"""Asks an execution provider that runs here which single nodes it takes, and writes its table for ``ortune partition``.

python tools/probe_provider.py qnn|webgpu PYTHON [CASES] [OPERATOR,...]
python tools/probe_provider.py xnnpack FOLDER [CASES] [OPERATOR,...]

CASES is how many nodes of one operator are asked about, 5 by default: Qualcomm's emulator compiles each for a second.
With OPERATORs these alone are asked about, and their part of the table is replaced.
PYTHON is the interpreter of an environment with the provider: ``ortune runtime add qnn`` makes one (on x86-64 with
Qualcomm's emulator), ``ortune runtime add webgpu`` another; without a GPU the latter needs
ORT_WEBGPU_EP_ALLOW_SOFTWARE_ADAPTER=1 and a Vulkan driver in software (VK_DRIVER_FILES). No wheel has XNNPACK, but
onnxruntime-web 1.16.3 has: FOLDER is where ``npm install onnxruntime-web@1.16.3`` ran, and Node.js runs it.

The nodes are those of onnx's own backend tests, some a kind of operator: as they are, with all inputs but the first
constant, in other element types, with an open size, and with QDQ nodes around them; and a Cast of each element type to
each other. XNNPACK is also asked about an activation behind a node that may take it up, the others about a
LayerNormalization as layers have it. No model that the table is judged by is among them.

Where QNN fails to compile a node, as its emulator does for want of memory, what it said of the node before is its
answer.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import warnings
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnx.parser
from onnx import TensorProto, helper, numpy_helper

ROOT = Path(__file__).resolve().parents[1]
TABLES = ROOT / "src" / "ortune" / "engines" / "partitions" / "tables"
PROVIDERS = {
    "qnn": ("QNNExecutionProvider", {"backend_type": "htp"}),
    "webgpu": ("WebGpuExecutionProvider", {}),
    "xnnpack": ("XnnpackExecutionProvider", {}),
}
MOST_CASES = 5
OPSETS = {"qnn": 20, "webgpu": 20, "xnnpack": 18}
IR_VERSION = 8
TYPES = {"float16": TensorProto.FLOAT16, "int32": TensorProto.INT32, "int64": TensorProto.INT64}
CAST = ("float", "float16", "double", "bool", "int8", "uint8", "int32", "int64")
"""Element types between which a Cast is asked about."""
TIMEOUT_S = 300

ASK = """
import json, sys
sys.path.append(sys.argv[1])  # last: it has a platform of its own
import onnxruntime as ort
from worker import placement, plugins
provider, options = json.loads(sys.argv[2])
for line in sys.stdin:
    session = ort.SessionOptions()
    session.log_severity_level = 4
    plugins.attach(ort, session, provider, options)
    try:
        nodes, _ = placement.nodes_of(ort, line.strip(), session, {}, provider)
    except Exception as error:
        nodes = None
    print(json.dumps([line.strip(), nodes]), flush=True)
"""

ANY = "*"
"""The operator of a node, where onnxruntime-web names none: all nodes have one provider."""
# What onnxruntime-web logs of its nodes is all that it gives away.
ASK_WEB = r"""
const fs = require("fs"), path = require("path");
let logged = [];
for (const way of ["log", "info", "warn", "error"]) console[way] = (...words) => logged.push(words.join(" "));
const ort = require(path.join(process.argv[1], "node_modules", "onnxruntime-web"));
ort.env.wasm.numThreads = 1;
const options = {executionProviders: ["xnnpack"], logSeverityLevel: 0, logVerbosityLevel: 1};
(async () => {
  for (const file of fs.readFileSync(0, "utf8").split("\n").filter(Boolean)) {
    let nodes = null;
    logged = [];
    try {
      const session = await ort.InferenceSession.create(new Uint8Array(fs.readFileSync(file)), options);
      await session.release();
      nodes = [];
      let place = "";
      for (const line of logged.join("\n").split("\n")) {
        if (!line.includes("VerifyEachNodeIsAssignedToAnEp")) continue;
        const start = line.match(/placed on \[(\w+)\]/), node = line.match(/\]\s+(\w+) \((.*)\)$/);
        const all = line.match(/All nodes placed on \[(\w+)\]. Number of nodes: (\d+)/);
        if (all) nodes.push(...Array(Number(all[2])).fill(["*", "", all[1]]));
        else if (start) place = start[1];
        else if (node) nodes.push([node[1], node[2], place]);
      }
    } catch (error) {}
    fs.writeSync(1, JSON.stringify([file, nodes]) + "\n");
  }
})();
"""


@dataclass(frozen=True, kw_only=True)
class Probe:
    """One node to ask about: its operator, the type and rank of its first input, and how it is given."""

    operator: str
    kind: str
    rank: int
    form: str
    model: onnx.ModelProto


def probes(most_cases: int, opset: int) -> Iterator[Probe]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        from onnx.backend.test.case.node import collect_testcases

        cases = collect_testcases(None)
    seen: defaultdict[str, list[tuple[Any, ...]]] = defaultdict(list)
    for case in cases:
        model = _at_opset(case.model, opset)
        if len(model.graph.node) != 1 or not case.data_sets or not model.graph.input:
            continue
        (node,) = model.graph.node
        if node.domain or node.op_type == "Cast":
            continue
        tensors = all(v.type.HasField("tensor_type") for v in (*model.graph.input, *model.graph.output))
        if not tensors or any(a.HasField("g") for a in node.attribute):
            continue
        first = model.graph.input[0].type.tensor_type
        key = (
            first.elem_type,
            len(first.shape.dim),
            len(model.graph.input),
            str(sorted(map(str, node.attribute))),
        )
        operator = node.op_type
        if key in seen[operator] or len(seen[operator]) >= most_cases:
            continue
        seen[operator].append(key)
        yield from _forms(operator, model, case.data_sets[0][0], fresh=len(seen[operator]) == 1)


def _forms(operator: str, model: onnx.ModelProto, inputs: list[Any], *, fresh: bool) -> Iterator[Probe]:
    first = model.graph.input[0].type.tensor_type
    rank, kind = len(first.shape.dim), _kind(first.elem_type)
    yield Probe(operator=operator, kind=kind, rank=rank, form="fed", model=model)
    if not all(isinstance(value, np.ndarray | np.generic) for value in inputs):
        return
    constant = _with_constants(model, inputs)
    if len(model.graph.input) > 1:
        yield Probe(operator=operator, kind=kind, rank=rank, form="constant", model=constant)
    if first.elem_type == TensorProto.FLOAT and fresh:
        for name, number in TYPES.items():
            other = _retyped(constant, number)
            yield Probe(operator=operator, kind=name, rank=rank, form="constant", model=other)
    if first.elem_type == TensorProto.FLOAT and fresh:
        yield Probe(operator=operator, kind="qdq", rank=rank, form="constant", model=_quantized(constant))
    if fresh and rank:
        yield Probe(operator=operator, kind=kind, rank=rank, form="open", model=_opened(constant))


def casts(opset: int) -> Iterator[Probe]:
    """A Cast of each element type to each other."""
    for before in CAST:
        for after in CAST:
            if before == after:
                continue
            first, last = (TensorProto.DataType.Value(kind.upper()) for kind in (before, after))
            graph = helper.make_graph(
                [helper.make_node("Cast", ["x"], ["y"], to=last)],
                "cast",
                [helper.make_tensor_value_info("x", first, [3, 4])],
                [helper.make_tensor_value_info("y", last, [3, 4])],
            )
            opsets = [helper.make_opsetid("", opset)]
            model = helper.make_model(graph, opset_imports=opsets, ir_version=IR_VERSION)
            yield Probe(operator="Cast", kind=f"{before} to {after}", rank=2, form="fed", model=model)


def layers(opset: int) -> Iterator[Probe]:
    """A LayerNormalization as a layer has it: onnx's tests ask it for its mean and deviation too."""
    for sizes in ("2,8", "1,2,8", "1,2,2,8"):
        model = onnx.parser.parse_model(
            f'<ir_version: {IR_VERSION}, opset_import: ["" : {opset}]> g (float[{sizes}] x) => (float[{sizes}] y) '
            f"<float[8] w = {{{','.join('1' * 8)}}}, float[8] b = {{{','.join('0' * 8)}}}> "
            "{ y = LayerNormalization (x, w, b) }"
        )
        rank = sizes.count(",") + 1
        yield Probe(operator="LayerNormalization", kind="float", rank=rank, form="constant", model=model)
        yield Probe(
            operator="LayerNormalization", kind="qdq", rank=rank, form="constant", model=_quantized(model)
        )


FIRST = {
    "Conv": "Conv (x, w)",
    "ConvTranspose": "ConvTranspose (x, w)",
    "MaxPool": "MaxPool <kernel_shape = [2,2]> (x)",
    "AveragePool": "AveragePool <kernel_shape = [2,2]> (x)",
    "GlobalAveragePool": "GlobalAveragePool (x)",
    "Softmax": "Softmax (x)",
}
BEHIND = {"Relu": "Relu (a)", "Clip": "Clip (a, low, high)"}


def kernels(opset: int) -> Iterator[Probe]:
    """A Gemm as a layer has it, and an activation behind a node that may take it up: then none is left."""
    head = f'<ir_version: {IR_VERSION}, opset_import: ["" : {opset}]>'
    gemm = onnx.parser.parse_model(
        f"{head} g (float[2,2] x) => (float[2,3] y) <float[2,3] w = {{1,2,3,4,5,6}}, float[3] b = {{1,2,3}}> "
        "{ y = Gemm (x, w, b) }"
    )
    yield Probe(operator="Gemm", kind="float", rank=2, form="constant", model=gemm)
    for operator, second in BEHIND.items():
        for first, text in FIRST.items():
            weight = ", ".join("0.5" for _ in range(16))
            model = onnx.parser.parse_model(
                f"{head} g (float[1,4,8,8] x) => (float[1,4,h,l] y) <float[4,4,1,1] w = {{{weight}}}, "
                f"float low = {{0}}, float high = {{6}}> {{ a = {text} y = {second} }}"
            )
            yield Probe(operator=operator, kind=f"float behind {first}", rank=4, form="behind", model=model)


def _at_opset(model: onnx.ModelProto, opset: int) -> onnx.ModelProto:
    """The model at the opset that exporters write: the cases are at the newest, which providers do not know yet."""
    made = onnx.ModelProto()
    made.CopyFrom(model)
    for entry in made.opset_import:
        if not entry.domain:
            entry.version = min(entry.version, opset)
    made.ir_version = IR_VERSION
    return made


def _kind(number: int) -> str:
    return helper.tensor_dtype_to_string(number).rpartition(".")[2].lower()


def _with_constants(model: onnx.ModelProto, inputs: list[Any]) -> onnx.ModelProto:
    made = onnx.ModelProto()
    made.CopyFrom(model)
    for value, array in list(zip(model.graph.input, inputs, strict=False))[1:]:
        made.graph.initializer.append(numpy_helper.from_array(np.asarray(array), value.name))
    del made.graph.input[1:]
    return made


def _retyped(model: onnx.ModelProto, number: int) -> onnx.ModelProto:
    """Of what is float32, all in another type."""
    made = onnx.ModelProto()
    made.CopyFrom(model)
    dtype = helper.tensor_dtype_to_np_dtype(number)
    for value in (*made.graph.input, *made.graph.output):
        if value.type.tensor_type.elem_type == TensorProto.FLOAT:
            value.type.tensor_type.elem_type = number
    for tensor in made.graph.initializer:
        if tensor.data_type == TensorProto.FLOAT and made.graph.node[0].op_type != "Resize":
            with np.errstate(all="ignore"):
                tensor.CopyFrom(
                    numpy_helper.from_array(numpy_helper.to_array(tensor).astype(dtype), tensor.name)
                )
    return made


def _quantized(model: onnx.ModelProto) -> onnx.ModelProto:
    """With QDQ nodes around every float32 input and output."""
    made = onnx.ModelProto()
    made.CopyFrom(model)
    (node,) = made.graph.node
    made.graph.initializer.append(numpy_helper.from_array(np.float32(0.05), "qdq_scale"))
    made.graph.initializer.append(numpy_helper.from_array(np.uint8(128), "qdq_zero"))
    kinds = {v.name: v.type.tensor_type.elem_type for v in (*made.graph.input, *made.graph.output)}
    kinds |= {t.name: t.data_type for t in made.graph.initializer}
    before, behind = [], []
    for place, name in enumerate(node.input):
        sizes = node.op_type == "Resize" and place
        if name and kinds.get(name) == TensorProto.FLOAT and not sizes:
            node.input[place] = f"{name}_dq"
            before += _pair(name, f"{name}_q", f"{name}_dq")
    for place, name in enumerate(node.output):
        if kinds.get(name) == TensorProto.FLOAT:
            node.output[place] = f"{name}_raw"
            behind += _pair(f"{name}_raw", f"{name}_q", name)
    nodes = [*before, *list(made.graph.node), *behind]
    del made.graph.node[:]
    made.graph.node.extend(nodes)
    for entry in made.opset_import:
        if not entry.domain:
            entry.version = max(13, entry.version)
    return made


def _pair(given: str, stored: str, result: str) -> list[onnx.NodeProto]:
    parameters = ["qdq_scale", "qdq_zero"]
    return [
        helper.make_node("QuantizeLinear", [given, *parameters], [stored]),
        helper.make_node("DequantizeLinear", [stored, *parameters], [result]),
    ]


def _opened(model: onnx.ModelProto) -> onnx.ModelProto:
    made = onnx.ModelProto()
    made.CopyFrom(model)
    made.graph.input[0].type.tensor_type.shape.dim[0].dim_param = "open"
    for value in made.graph.output:
        value.type.tensor_type.ClearField("shape")
    return made


def asked(python: str, name: str, models: list[Path]) -> dict[str, Any]:
    """What the provider says of each model, by path; those on which its process ends are asked alone, once."""
    found: dict[str, Any] = {}
    waiting = list(models)
    while waiting:
        batch = waiting[:200]
        command = (
            ["node", "-e", ASK_WEB, python]
            if name == "xnnpack"
            else [python, "-c", ASK, str(ROOT / "src" / "ortune"), json.dumps(PROVIDERS[name])]
        )
        try:
            lines = subprocess.run(
                command, input="\n".join(map(str, batch)), text=True, capture_output=True, timeout=TIMEOUT_S,
                check=False,
            ).stdout  # fmt: skip
        except subprocess.TimeoutExpired as late:
            lines = (late.stdout or b"").decode() if isinstance(late.stdout, bytes) else late.stdout or ""
        answers = [json.loads(line) for line in lines.splitlines() if line.startswith("[")]
        found |= dict(answers)
        if len(answers) < len(batch):
            found[str(batch[len(answers)])] = None
        waiting = [model for model in waiting if str(model) not in found]
        print(f"{len(found)} of {len(models)}", file=sys.stderr)
    return found


def main() -> None:
    name, python = sys.argv[1:3]
    most_cases = int(sys.argv[3]) if len(sys.argv) > 3 else MOST_CASES
    only = sys.argv[4].split(",") if len(sys.argv) > 4 else []
    opset = OPSETS[name]
    more = kernels(opset) if name == "xnnpack" else layers(opset)
    with tempfile.TemporaryDirectory() as folder:
        given: dict[str, Probe] = {}
        for number, probe in enumerate((*probes(most_cases, opset), *casts(opset), *more)):
            if only and probe.operator not in only:
                continue
            path = Path(folder, f"{number}.onnx")
            onnx.save(probe.model, path)
            given[str(path)] = probe
        answers = asked(python, name, [Path(path) for path in given])
    release = _release(python, name)
    document = table(name, given, answers, release)
    file = TABLES / f"{name}.json"
    if only:
        document = merged(json.loads(file.read_text(encoding="utf-8")), document, only)
    file.write_text(json.dumps(document, separators=(",", ":")) + "\n", encoding="utf-8")


def table(name: str, given: dict[str, Probe], answers: dict[str, Any], release: str) -> dict[str, Any]:
    """The answers as the table has them."""
    provider = PROVIDERS[name][0]
    forms: defaultdict[str, dict[str, Any]] = defaultdict(dict)
    open_taken = open_asked = 0
    needs: defaultdict[str, list[bool]] = defaultdict(list)
    alone: dict[tuple[str, str, int], bool] = {}
    for path, probe in given.items():
        nodes = answers.get(path)
        if nodes is None:
            continue  # no model that ONNX Runtime takes
        own = probe.operator.rpartition(":")[2]
        names = (own, ANY, f"QLinear{own}") if probe.kind == "qdq" else (own, ANY)
        on = [place for op, _, place in nodes if op in names]
        if probe.form == "behind" and nodes and not on:
            on = [provider]
        if not on:
            continue  # computed beforehand, or written out as other operators
        taken = all(place == provider for place in on)
        key = (probe.operator, probe.kind, probe.rank)
        if probe.form == "open":
            if any(alone.get(k) for k in alone if k[0] == probe.operator):
                open_asked, open_taken = open_asked + 1, open_taken + taken
            continue
        ranks = forms[probe.operator].setdefault(probe.kind, {"taken": [], "left": []})
        ranks["taken" if taken else "left"].append(probe.rank)
        if probe.form == "fed":
            alone[key] = taken
        elif key in alone and taken != alone[key]:
            needs[probe.operator].append(taken)
    known = [op for op, kinds in sorted(forms.items()) if any(ranks["taken"] for ranks in kinds.values())]
    return {
        "source": "probed node by node: tools/probe_provider.py",
        "releases": [release],
        "since": dict.fromkeys(known, release),
        "fixed_sizes": open_taken < open_asked / 2,
        "constants": sorted(op for op, all_taken in needs.items() if all(all_taken)),
        "forms": {
            op: {
                kind: {way: sorted(set(ranks[way])) for way in ranks} for kind, ranks in sorted(kinds.items())
            }
            for op, kinds in sorted(forms.items())
            if op in known
        },
    }


def merged(before: dict[str, Any], part: dict[str, Any], only: list[str]) -> dict[str, Any]:
    """A table in which some operators were asked about again."""
    if before["releases"] != part["releases"]:
        raise SystemExit(f"the table is of {before['releases'][0]}: ask about all operators again")
    since = {op: first for op, first in before["since"].items() if op not in only} | part["since"]
    forms = {op: kinds for op, kinds in before["forms"].items() if op not in only} | part["forms"]
    constants = {op for op in before["constants"] if op not in only} | {*part["constants"]}
    return before | {
        "since": dict(sorted(since.items())),
        "constants": sorted(constants),
        "forms": dict(sorted(forms.items())),
    }


def _release(place: str, name: str) -> str:
    """Of ONNX Runtime, where the provider is."""
    if name == "xnnpack":
        package = Path(place, "node_modules", "onnxruntime-web", "package.json")
        return str(json.loads(package.read_text(encoding="utf-8"))["version"])
    code = "import importlib.metadata as m; print(m.version('onnxruntime'))"
    return subprocess.run([place, "-c", code], text=True, capture_output=True, check=True).stdout.strip()


if __name__ == "__main__":
    main()
