"""Conversion of a ModelProto with referenced weights into an onnx-ir model with tensors that stay in their files.

Both formats are converted here: ``.onnx`` as the skeleton from ``wire``, ``.ort`` as the ModelProto from ``ort_file``.
Parts that onnx-ir does not support are translated: map types are kept as text in ``Value.meta``, and sparse tensors
become dense tensors that are computed when read.
"""

from __future__ import annotations

import math
from collections.abc import Iterable

import numpy as np
import onnx
import onnx_ir as ir
from onnx import helper
from onnx_ir.serde import SerdeError

from ortune.errors import ModelError
from ortune.graph.model import graphs, wire
from ortune.graph.model.tensors import WeightFiles, payload_bytes


def to_ir(proto: onnx.ModelProto, files: WeightFiles, where: str) -> ir.Model:
    """Return the model with its nodes in topological order; ``proto`` is modified.

    Raises:
        ModelError: If a tensor's data is incomplete, or the graph is inconsistent.
    """
    translation = _Translation(files, where)
    # Text that is not UTF-8 is returned as bytes. These fields are not names, so they are repaired; names are
    # rejected.
    for field in ("producer_name", "producer_version", "doc_string"):
        text = getattr(proto, field)
        if isinstance(text, bytes):
            setattr(proto, field, text.decode(errors="replace"))
    try:
        translation.names(opset.domain for opset in proto.opset_import)
        translation.graph(proto.graph)
        for function in proto.functions:
            translation.value_infos(function.value_info)
            translation.nodes(function.node)
        model = ir.from_proto(proto)
        if not graphs.in_order(model):
            for graph in graphs.scopes(model):
                graph.sort()
        translation.attach(model)
        graphs.require_finite(model)
        graphs.require_signatures(model)
    except (SerdeError, ValueError, TypeError, KeyError, NotImplementedError, RecursionError) as error:
        raise ModelError(
            f"The graph is inconsistent: {_root_cause(error)}",
            where=where,
            do="Check the model with onnx.checker.check_model, and export it again.",
        ) from error
    return model


def _root_cause(error: BaseException) -> str:
    # onnx-ir wraps the error once per nesting level, and prints the whole level each time.
    while error.__cause__ is not None:
        error = error.__cause__
    text = str(error) or type(error).__name__
    return text if len(text) <= 300 else text[:300] + "..."


class _Translation:
    """Translation of the parts that onnx-ir does not support: removed from the proto, and restored in the model."""

    def __init__(self, files: WeightFiles, where: str) -> None:
        self._files = files
        self._where = where
        self._types: dict[str, onnx.TypeProto] = {}
        # Keyed by the reference that replaces the tensor in the proto and in onnx-ir.
        self._tensors: dict[str, ir.TensorProtocol] = {}

    def graph(self, graph: onnx.GraphProto) -> None:
        """Translate a graph and all of its subgraphs."""
        for infos in (graph.input, graph.output, graph.value_info):
            self.value_infos(infos)
        for tensor in graph.initializer:
            self._tensor(tensor)
        for sparse in graph.sparse_initializer:
            graph.initializer.append(self._sparse(sparse, sparse.values.name))
        del graph.sparse_initializer[:]
        self.nodes(graph.node)

    def names(self, names: Iterable[str | bytes]) -> None:
        """Raise ModelError for names that are not UTF-8, which protobuf returns as bytes that match no name."""
        for name in names:
            if isinstance(name, bytes):
                raise ModelError(
                    f"The name {name!r} is not UTF-8.",
                    where=self._where,
                    do="Export the model again with names in UTF-8, or check whether the file is damaged.",
                )

    def value_infos(self, infos: Iterable[onnx.ValueInfoProto]) -> None:
        """Replace types that contain maps with text, and (as ONNX Runtime does) negative dimensions with unknown."""
        for info in infos:
            self.names([info.name])
            for dim in info.type.tensor_type.shape.dim if info.type.HasField("tensor_type") else ():
                if dim.dim_value < 0:
                    dim.ClearField("dim_value")
            if _has_map(info.type):
                self._types[info.name] = onnx.TypeProto()
                self._types[info.name].CopyFrom(info.type)
                info.ClearField("type")

    def nodes(self, nodes: Iterable[onnx.NodeProto]) -> None:
        """Translate the attributes of nodes."""
        for node in nodes:
            self.names((node.name, node.op_type, node.domain, *node.input, *node.output))
            for attribute in node.attribute:
                self.names([attribute.name])
                if attribute.HasField("t"):
                    self._tensor(attribute.t)
                for tensor in attribute.tensors:
                    self._tensor(tensor)
                if attribute.HasField("g"):
                    self.graph(attribute.g)
                for inner in attribute.graphs:
                    self.graph(inner)
                if attribute.type == onnx.AttributeProto.SPARSE_TENSOR:
                    dense = self._sparse(attribute.sparse_tensor, attribute.name)
                    attribute.ClearField("sparse_tensor")
                    attribute.type = onnx.AttributeProto.TENSOR
                    attribute.t.CopyFrom(dense)
                    if node.op_type == "Constant" and attribute.name == "sparse_value":
                        attribute.name = "value"

    def attach(self, model: ir.Model) -> None:
        """Replace the references in ``model`` with tensors that can be read."""
        for graph in graphs.graphs(model):
            if isinstance(graph, ir.Graph):
                for value in graph.initializers.values():
                    if isinstance(value.const_value, ir.ExternalTensor):
                        value.const_value = self._attached(value.const_value)
            self._attach_types((*graph.inputs, *graph.outputs))
            for node in graph:
                self._attach_types(node.outputs)
                for name, attribute in list(node.attributes.items()):
                    tensors_held = graphs.attribute_tensors(attribute)
                    if not any(isinstance(tensor, ir.ExternalTensor) for tensor in tensors_held):
                        continue
                    new = [self._attached(tensor) for tensor in tensors_held]
                    node.attributes[name] = (
                        ir.AttrTensor(name, new[0])
                        if attribute.type == ir.AttributeType.TENSOR
                        else ir.AttrTensors(name, new)
                    )

    def _attach_types(self, values: Iterable[ir.Value]) -> None:
        for value in values:
            if value.name in self._types:
                value.meta[graphs.MAP_TYPE] = _in_words(self._types[value.name])
                value.meta[graphs.MAP_TYPE_PROTO] = self._types[value.name]

    def _attached(self, tensor: ir.TensorProtocol) -> ir.TensorProtocol:
        if not isinstance(tensor, ir.ExternalTensor):
            return tensor
        return self._tensors[str(tensor.location)]

    def _tensor(self, tensor: onnx.TensorProto) -> None:
        """Check a tensor, and resolve a reference at once, so missing data is reported when the model is opened."""
        self.names([tensor.name])
        if tensor.data_location == onnx.TensorProto.EXTERNAL:
            self._stand_in(tensor, self._files.tensor(tensor))
        elif tensor.HasField("raw_data"):
            need = payload_bytes(tensor, self._where)
            have = len(tensor.raw_data)
            if need is not None and need != have:
                raise ModelError(
                    f"Tensor {tensor.name or '(unnamed)'!r} has {have} bytes of data, and its type and shape "
                    f"({list(tensor.dims)}) need {need}.",
                    where=self._where,
                    do="Export or download the model again.",
                )
        else:
            self._require_numbers(tensor)

    def _require_numbers(self, tensor: onnx.TensorProto) -> None:
        """Raise ModelError if a tensor's shape does not match its stored numbers."""
        payload_bytes(tensor, self._where)
        have = len(getattr(tensor, helper.tensor_dtype_to_field(tensor.data_type)))
        need, kind = math.prod(tensor.dims), ir.DataType(tensor.data_type)
        # Outside raw_data a complex number has two entries, and types below 8 bits have one entry per byte: three
        # 4-bit numbers are (3 x 4 + 7) // 8 = 2 entries.
        if kind in (ir.DataType.COMPLEX64, ir.DataType.COMPLEX128):
            need *= 2
        elif kind != ir.DataType.STRING and kind.bitwidth < 8:
            need = (need * kind.bitwidth + 7) // 8
        if have != need:
            raise ModelError(
                f"Tensor {tensor.name or '(unnamed)'!r} holds {have} numbers, and its shape is {list(tensor.dims)}.",
                where=self._where,
                do="Export or download the model again.",
            )

    def _sparse(self, sparse: onnx.SparseTensorProto, name: str) -> onnx.TensorProto:
        dense = onnx.TensorProto(name=name, dims=sparse.dims, data_type=sparse.values.data_type)
        if (payload_bytes(dense, self._where) or 0) > wire.MAX_PROTOBUF_BYTES:
            raise ModelError(
                f"The sparse tensor {name!r} is of {'x'.join(map(str, dense.dims))}, more than 2 GiB once it "
                "is dense.",
                where=self._where,
                do="Export the model again: ONNX Runtime expands sparse weights when it loads them.",
            )
        kept = onnx.SparseTensorProto()
        kept.CopyFrom(sparse)
        lazy = ir.LazyTensor(
            lambda: self._densified(kept), ir.DataType(dense.data_type), ir.Shape(dense.dims), name=name
        )
        self._stand_in(dense, lazy)
        return dense

    def _stand_in(self, proto: onnx.TensorProto, tensor: ir.TensorProtocol) -> None:
        key = f"<tensor {len(self._tensors)}>"
        self._tensors[key] = tensor
        del proto.external_data[:]
        proto.data_location = onnx.TensorProto.EXTERNAL
        entry = proto.external_data.add()
        entry.key, entry.value = "location", key

    def _densified(self, sparse: onnx.SparseTensorProto) -> ir.TensorProtocol:
        values, indices = self._files.array(sparse.values), self._files.array(sparse.indices).astype(np.int64)
        dense = np.zeros(tuple(sparse.dims), values.dtype)
        # ONNX allows flat indices of shape [NNZ], and one row of coordinates per number, of shape [NNZ, rank].
        places = indices if indices.ndim == 1 else np.ravel_multi_index(tuple(indices.T), dense.shape)
        dense.reshape(-1)[places] = values
        return ir.tensor(dense, dtype=ir.DataType(sparse.values.data_type), name=sparse.values.name)


def _has_map(kind: onnx.TypeProto) -> bool:
    which = kind.WhichOneof("value")
    if which in ("sequence_type", "optional_type"):
        return _has_map(getattr(kind, which).elem_type)
    return which in ("map_type", "opaque_type")


def _in_words(kind: onnx.TypeProto) -> str:
    which = kind.WhichOneof("value")
    if which == "tensor_type":
        return str(onnx.TensorProto.DataType.Name(kind.tensor_type.elem_type)).lower()
    if which == "map_type":
        key = onnx.TensorProto.DataType.Name(kind.map_type.key_type).lower()
        return f"map({key},{_in_words(kind.map_type.value_type)})"
    if which in ("sequence_type", "optional_type"):
        name = "seq" if which == "sequence_type" else "optional"
        return f"{name}({_in_words(getattr(kind, which).elem_type)})"
    return "opaque" if which == "opaque_type" else ""
