"""Opening of ``.ort`` files, ONNX Runtime's flatbuffer format, without ONNX Runtime and without loading weights.

The tables become a ModelProto with weights as references into the file, so both formats are processed alike from there.
Slot numbers follow ONNX Runtime's public schema ``ort.fbs``. The format has no model-local functions and no graph name;
a node's execution provider is kept in ``metadata_props["execution_provider"]``.
"""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import onnx
import onnx_ir as ir

from ortune.errors import ModelError
from ortune.graph.model import wire
from ortune.graph.model.flatbuffer import Flatbuffer, FlatbufferTable
from ortune.graph.model.from_proto import to_ir
from ortune.graph.model.tensors import WeightFiles

IDENTIFIER = b"ORTM"
_IDENTIFIER_AT = 4
VERSION, SAVED = "ort_format_version", "ort_saved_optimisations"

_Attribute = onnx.AttributeProto
_HELD = range(_Attribute.FLOAT, _Attribute.GRAPHS + 1)


def is_ort(head: bytes) -> bool:
    """Return whether a file that begins with the bytes ``head`` is in ORT format."""
    return head[_IDENTIFIER_AT : _IDENTIFIER_AT + 4] == IDENTIFIER


def read_ort(path: Path) -> tuple[ir.Model, WeightFiles]:
    """Open an ``.ort`` file.

    Returns:
        The model, whose tensors stay in the file, and the file. ``model.meta[VERSION]`` is the format's version as
        text; ``model.meta[SAVED]`` is the number of nodes that stored optimizations create, by operator.

    Raises:
        ModelError: If the file is damaged, or not a model.
    """
    where = str(path)
    files = WeightFiles(path)
    session = Flatbuffer(files.own.map(), where).root()
    table = session.table(1)
    graph = None if table is None else table.table(7)
    if table is None or graph is None:
        raise ModelError(
            "The ORT-format file contains no model.",
            where=where,
            do="Convert the .onnx again (ortune convert MODEL.onnx --to ort --for PLACE).",
        )
    try:
        proto = _model(table, graph)
    except (ValueError, TypeError) as error:
        # protobuf rejects values out of range, such as unknown enumeration values or names with a surrogate.
        raise table.damaged(f"a value is out of range ({error})") from error
    model = to_ir(proto, files, where)
    model.meta[VERSION] = session.string(0)
    model.meta[SAVED] = _saved(graph)
    return model, files


def _saved(graph: FlatbufferTable) -> dict[str, int]:
    """Return the number of nodes that the main graph's stored optimizations create when applied, by operator."""
    container, counts = graph.table(8), Counter[str]()
    for optimiser in container.tables(0) if container is not None else ():
        for record in optimiser.tables(1):
            # "com.microsoft:FusedConv:1"; ONNX's domain is empty.
            for identifier in record.strings(3):
                domain, _, rest = identifier.partition(":")
                op_type = rest.partition(":")[0]
                counts[f"{domain}.{op_type}" if domain else op_type] += 1
    return dict(counts)


def _model(table: FlatbufferTable, graph: FlatbufferTable) -> onnx.ModelProto:
    proto = onnx.ModelProto(
        ir_version=table.int64(0),
        producer_name=table.string(2),
        producer_version=table.string(3),
        domain=table.string(4),
        model_version=table.int64(5),
        doc_string=table.string(6),
    )
    for opset in table.tables(1):
        proto.opset_import.add(domain=opset.string(0), version=opset.int64(1))
    for entry in table.tables(9):
        proto.metadata_props.add(key=entry.string(0), value=entry.string(1))
    _graph(graph, proto.graph)
    proto.graph.doc_string = table.string(8)
    return proto


def _graph(table: FlatbufferTable, graph: onnx.GraphProto) -> None:
    infos = {info.name: info for info in map(_value_info, table.tables(1))}
    inputs, outputs = table.strings(5), table.strings(6)
    for names, target in ((inputs, graph.input), (outputs, graph.output)):
        target.extend(infos.get(name, onnx.ValueInfoProto(name=name)) for name in names)
    ends = {"", *inputs, *outputs}
    graph.value_info.extend(info for name, info in infos.items() if name not in ends)
    for tensor in table.tables(0):
        _tensor(tensor, graph.initializer.add())
    for sparse in table.tables(7):
        target_sparse = graph.sparse_initializer.add(dims=sparse.int64s(2))
        for slot, part in ((0, target_sparse.values), (1, target_sparse.indices)):
            inner = sparse.table(slot)
            if inner is None:
                raise sparse.damaged("a sparse tensor lacks values or indices")
            _tensor(inner, part)
    for node in table.tables(2):
        _node(node, graph.node.add())


def _node(table: FlatbufferTable, node: onnx.NodeProto) -> None:
    node.name, node.doc_string, node.domain = table.string(0), table.string(1), table.string(2)
    node.op_type = table.string(5)
    provider = table.string(7)
    if provider:
        node.metadata_props.add(key="execution_provider", value=provider)
    node.input.extend(table.strings(8))
    node.output.extend(table.strings(9))
    for attribute in table.tables(10):
        _attribute(attribute, node.attribute.add())


def _attribute(table: FlatbufferTable, attribute: onnx.AttributeProto) -> None:
    attribute.name, attribute.doc_string = table.string(0), table.string(1)
    # The type numbers are those of AttributeProto.
    kind = table.int32(2)
    if kind not in _HELD:
        raise table.damaged(
            f"attribute {attribute.name!r} has the type {kind}, which this format cannot hold"
        )
    attribute.type = kind  # type: ignore[assignment]
    if kind == _Attribute.FLOAT:
        attribute.f = table.float32(3)
    elif kind == _Attribute.INT:
        attribute.i = table.int64(4)
    elif kind == _Attribute.STRING:
        attribute.s = table.raw(5)
    elif kind == _Attribute.TENSOR:
        _tensor(_needed(table, 6), attribute.t)
    elif kind == _Attribute.GRAPH:
        _graph(_needed(table, 7), attribute.g)
    # At most one of these is present, according to the type.
    attribute.floats.extend(table.float32s(8))
    attribute.ints.extend(table.int64s(9))
    attribute.strings.extend(table.byte_strings(10))
    for tensor in table.tables(11):
        _tensor(tensor, attribute.tensors.add())
    for graph in table.tables(12):
        _graph(graph, attribute.graphs.add())


def _needed(table: FlatbufferTable, slot: int) -> FlatbufferTable:
    inner = table.table(slot)
    if inner is None:
        raise table.damaged(f"attribute {table.string(0)!r} has no value")
    return inner


def _tensor(table: FlatbufferTable, tensor: onnx.TensorProto) -> None:
    tensor.name, tensor.doc_string = table.string(0), table.string(1)
    tensor.dims.extend(table.int64s(2))
    tensor.data_type = table.int32(3)
    if tensor.data_type == onnx.TensorProto.STRING:
        tensor.string_data.extend(table.byte_strings(5))
        return
    if table.int64(6, default=-1) >= 0:
        raise table.damaged(f"tensor {tensor.name!r} is stored in the data file of a training checkpoint")
    at, length = table.data(4) or (0, 0)
    if length < wire.THRESHOLD:
        tensor.raw_data = table.raw(4)
        return
    tensor.data_location = onnx.TensorProto.EXTERNAL
    for key, value in (("location", wire.OWN_FILE), ("offset", str(at)), ("length", str(length))):
        tensor.external_data.add(key=key, value=value)


def _value_info(table: FlatbufferTable) -> onnx.ValueInfoProto:
    info = onnx.ValueInfoProto(name=table.string(0), doc_string=table.string(1))
    kind = table.table(2)
    if kind is not None:
        _type(kind, info.type)
    return info


def _type(table: FlatbufferTable, kind: onnx.TypeProto) -> None:
    denotation = table.string(0)
    if denotation:
        kind.denotation = denotation
    union, value = table.int8(1), table.table(2)
    if value is None:
        return
    # TypeInfoValue of ort.fbs: 1 is a tensor, 2 a sequence, 3 a map.
    if union == 1:
        kind.tensor_type.elem_type = value.int32(0)
        shape = value.table(1)
        if shape is not None:
            _shape(shape, kind.tensor_type.shape)
    elif union == 2:
        element = value.table(0)
        kind.sequence_type.SetInParent()
        if element is not None:
            _type(element, kind.sequence_type.elem_type)
    elif union == 3:
        kind.map_type.key_type = value.int32(0)
        element = value.table(1)
        if element is not None:
            _type(element, kind.map_type.value_type)


def _shape(table: FlatbufferTable, shape: onnx.TensorShapeProto) -> None:
    shape.SetInParent()
    for dimension in table.tables(0):
        target = shape.dim.add(denotation=dimension.string(1))
        value = dimension.table(0)
        # DimensionValueType of ort.fbs: 0 is unknown, 1 a number, 2 a name.
        kind = 0 if value is None else value.int8(0)
        if value is not None and kind == 1:
            target.dim_value = value.int64(1)
        elif value is not None and kind == 2:
            target.dim_param = value.string(2)
