"""A model without weights, names and metadata: the same graph in a few kilobytes, loadable by any ONNX Runtime.

Fields are copied one by one into a new file, so unknown fields are dropped. Names become numbers. Weights become
sparse tensors with a few seeded numbers: ONNX Runtime makes them dense at load time, so they remain initializers for
every optimization at any level. Values that determine shapes are kept.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import onnx
from onnx import AttributeProto, TensorProto

from ortune.errors import ModelError
from ortune.graph.attribute_values import CHOICES, OF_TREES, WORDS, kind_of, letters, ordinals
from ortune.graph.model import operators
from ortune.graph.model.onnx_file import read_proto
from ortune.graph.model.tensors import WeightFiles
from ortune.graph.rebuilt import FEW, Rebuilt, whole_bytes

_ML = "ai.onnx.ml"

_Whose = Literal["public", "call", "own"]
"""Who defines an attribute: a public operator schema, a function that the node calls, or the model's owner."""
_PUBLIC: _Whose = "public"
_CALL: _Whose = "call"
_OWN: _Whose = "own"
MOST_RANK = 8
"""Maximum number of elements of integer lists that are treated as shapes."""

_PLAIN = frozenset(
    {
        AttributeProto.INT, AttributeProto.INTS, AttributeProto.FLOAT, AttributeProto.FLOATS, AttributeProto.STRING,
        AttributeProto.STRINGS,
    }
)  # fmt: skip
_SPARSE_CONSTANT_OPSET = 11


@dataclass(kw_only=True)
class Skeleton:
    """A skeleton with the names that it replaced.

    Attributes:
        proto: The skeleton model.
        names: For each kind of name, a mapping from old to new names.
        n_rebuilt: Number of tensors with seeded values.
        n_kept: Number of tensors with unchanged values.
        own_operators: Number of nodes for each operator of a private domain, by new name; only its owner can run these.
    """

    proto: onnx.ModelProto
    names: dict[str, dict[str, str]]
    n_rebuilt: int = 0
    n_kept: int = 0
    own_operators: dict[str, int] = field(default_factory=dict)


def skeleton(path: Path) -> Skeleton:
    """Build the skeleton of an ``.onnx`` file; weights are read once, for their statistics.

    Raises:
        ModelError: If the file is not an ONNX model, or is damaged.
    """
    proto, files = read_proto(path)
    return _Builder(proto, files, str(path)).build()


class _Names:
    """New names for each kind of name; the same old name always gets the same new name."""

    def __init__(self) -> None:
        self.new_names: dict[str, dict[str, str]] = {}

    def renamed(self, kind: str, text: str) -> str:
        """Return the new name for a name of this kind; "" stays ""."""
        names = self.new_names.setdefault(kind, {})
        return names.setdefault(text, f"{kind}{len(names)}") if text else ""


class _Builder:
    def __init__(self, proto: onnx.ModelProto, files: WeightFiles, where: str) -> None:
        self.source, self.where = proto, where
        self.names = _Names()
        # A function that replaces one of ONNX Runtime's operators keeps the operator's attribute names.
        kept = [
            name
            for f in proto.functions
            for name in (*f.attribute, *(a.name for a in f.attribute_proto))
            if name in (operators.attributes(f.domain, f.name) or ())
        ]
        self.names.new_names["a"] = {name: name for name in kept}
        self.functions = {(f.domain, f.name, f.overload): self._new_identifier(f) for f in proto.functions}
        self.tensors = Rebuilt(files, self._other_text)
        self.own: Counter[str] = Counter()
        self.opset = 0

    def build(self) -> Skeleton:
        """Build the skeleton of the whole model, from the outermost graph inwards."""
        source = self.source
        proto = onnx.ModelProto(ir_version=source.ir_version)
        self._opsets(source.opset_import, proto.opset_import)
        self.opset = _standard(source.opset_import)
        self._graph(source.graph, proto.graph)
        for function in source.functions:
            self._function(function, proto.functions.add())
        return Skeleton(
            proto=proto,
            names=self.names.new_names,
            n_rebuilt=self.tensors.n_rebuilt,
            n_kept=self.tensors.n_kept,
            own_operators=dict(self.own),
        )

    # --- names

    def _new_identifier(self, function: onnx.FunctionProto) -> tuple[str, str, str]:
        """Return a function's new (domain, name, overload); replacements of public operators keep their name."""
        if operators.attributes(function.domain, function.name) is not None:
            return function.domain, function.name, self.names.renamed("o", function.overload)
        key = "\0".join((function.domain, function.name, function.overload))
        return "local", self.names.renamed("F", key), ""

    def _domain(self, domain: str) -> str:
        return domain if domain in operators.PUBLIC_DOMAINS else self.names.renamed("domain", domain)

    def _opsets(self, source: Iterable[onnx.OperatorSetIdProto], target: Any) -> None:
        for opset in source:
            target.add(domain=self._domain(opset.domain), version=opset.version)
        if any(domain == "local" for domain, _, _ in self.functions.values()):
            target.add(domain="local", version=1)

    def _value(self, name: str) -> str:
        return self.names.renamed("v", name)

    # --- graphs

    def _function(self, source: onnx.FunctionProto, target: onnx.FunctionProto) -> None:
        target.domain, target.name, target.overload = self.functions[
            source.domain, source.name, source.overload
        ]
        self._opsets(source.opset_import, target.opset_import)
        self.opset = _standard(source.opset_import)
        target.input.extend(map(self._value, source.input))
        target.output.extend(map(self._value, source.output))
        target.attribute.extend(self.names.renamed("a", name) for name in source.attribute)
        for attribute in source.attribute_proto:
            self._attribute(attribute, target.attribute_proto.add(), None, _CALL)
            target.attribute_proto[-1].name = self.names.renamed("a", attribute.name)
        for info in source.value_info:
            self._info(info, target.value_info.add())
        self.tensors.roles(source.node)
        for node in source.node:
            self._node(node, target.node, None)

    def _graph(self, source: onnx.GraphProto, target: onnx.GraphProto) -> None:
        target.name = self.names.renamed("g", source.name or "graph")
        self.tensors.roles(source.node)
        for infos, place in (
            (source.input, target.input),
            (source.output, target.output),
            (source.value_info, target.value_info),
        ):
            for info in infos:
                self._info(info, place.add())
        for tensor in source.initializer:
            self._initializer(tensor, self._value(tensor.name), target)
        for sparse in source.sparse_initializer:
            target.sparse_initializer.append(self.tensors.sparser(sparse, self._value(sparse.values.name)))
        for node in source.node:
            self._node(node, target.node, target)

    def _node(self, source: onnx.NodeProto, target: Any, graph: onnx.GraphProto | None) -> None:
        if source.op_type == "Constant" and source.domain in operators.STANDARD and graph is not None:
            value = next((a.t for a in source.attribute if a.name == "value"), None)
            if (
                value is not None
                and self.opset < _SPARSE_CONSTANT_OPSET
                and not self.tensors.stays(value, source.output[0])
            ):  # sparse constants require a newer opset; ONNX Runtime makes an initializer of it anyway
                self._initializer(value, self._value(source.output[0]), graph, source.output[0])
                return
        # Every unnamed node gets its own number; real names never begin with NUL.
        node = target.add(
            name=self.names.renamed("n", source.name or f"\0{len(self.names.new_names.get('n', ()))}")
        )
        call = self.functions.get((source.domain, source.op_type, source.overload))
        public = operators.attributes(source.domain, source.op_type)
        if call is not None:
            node.domain, node.op_type, node.overload = call
        elif public is not None:
            node.domain, node.op_type = source.domain, source.op_type
        else:
            node.domain = self._domain(source.domain)
            node.op_type = self.names.renamed("Op", f"{source.domain}\0{source.op_type}")
            self.own[node.op_type] += 1
        node.input.extend(map(self._value, source.input))
        node.output.extend(map(self._value, source.output))
        for attribute in source.attribute:
            # An attribute counts as the schema's only with the schema's type; otherwise it is the owner's.
            expected = (public or {}).get(attribute.name)
            meant = expected is not None and expected in (0, attribute.type or kind_of(attribute))
            target_attribute = onnx.AttributeProto(
                name=attribute.name if meant else self.names.renamed("a", attribute.name)
            )
            self._attribute(
                attribute, target_attribute, source, _PUBLIC if meant else _CALL if call else _OWN
            )
            node.attribute.append(target_attribute)

    def _info(self, source: onnx.ValueInfoProto, target: onnx.ValueInfoProto) -> None:
        target.name = self._value(source.name)
        self._type(source.type, target.type)

    def _type(self, source: onnx.TypeProto, target: onnx.TypeProto) -> None:
        which = source.WhichOneof("value")
        if which in ("tensor_type", "sparse_tensor_type"):
            old, new = getattr(source, which), getattr(target, which)
            new.elem_type = old.elem_type
            if old.HasField("shape"):
                new.shape.SetInParent()
                for dim in old.shape.dim:
                    dimension = new.shape.dim.add()
                    if dim.HasField("dim_value"):
                        dimension.dim_value = dim.dim_value
                    elif dim.dim_param:
                        dimension.dim_param = self.names.renamed("d", dim.dim_param)
        elif which in ("sequence_type", "optional_type"):
            self._type(getattr(source, which).elem_type, getattr(target, which).elem_type)
        elif which == "map_type":
            target.map_type.key_type = source.map_type.key_type
            self._type(source.map_type.value_type, target.map_type.value_type)

    # --- attributes

    def _attribute(
        self,
        source: onnx.AttributeProto,
        target: onnx.AttributeProto,
        node: onnx.NodeProto | None,
        whose: _Whose,
    ) -> None:
        """Copy the type and value of an attribute; the caller sets its name."""
        target.type = source.type or kind_of(source)  # type: ignore[assignment]
        if source.ref_attr_name:
            target.ref_attr_name = self.names.renamed("a", source.ref_attr_name)
            return
        kind, name = target.type, source.name
        stays = None if whose == _PUBLIC and (node is None or node.domain != _ML) else False
        if kind in _PLAIN:
            self._plain(source, target, node, whose)
        elif kind == AttributeProto.TENSOR:
            self._tensor_attribute(source, target, node, whose)
        elif kind == AttributeProto.TENSORS:
            target.tensors.extend(self.tensors.dense(tensor, "", stays=stays) for tensor in source.tensors)
        elif kind == AttributeProto.SPARSE_TENSOR:
            target.sparse_tensor.CopyFrom(self.tensors.sparser(source.sparse_tensor, ""))
        elif kind == AttributeProto.GRAPH:
            self._graph(source.g, target.g)
        elif kind == AttributeProto.GRAPHS:
            for inner in source.graphs:
                self._graph(inner, target.graphs.add())
        elif kind == AttributeProto.TYPE_PROTO:
            self._type(source.tp, target.tp)
        else:
            raise ModelError(
                f"The attribute {name!r} has the type {kind}, which is not known.",
                where=self.where,
                do="Upgrade ortune's onnx package, or export the model again.",
            )

    def _plain(
        self,
        source: onnx.AttributeProto,
        target: onnx.AttributeProto,
        node: onnx.NodeProto | None,
        whose: _Whose,
    ) -> None:
        """Copy numbers and texts that an operator's schema defines, and replace all others."""
        kind, name = target.type, source.name
        domain, op_type = (node.domain, node.op_type) if node is not None else ("", "")
        public = whose == _PUBLIC
        if kind == AttributeProto.INT:
            target.i = source.i if whose != _OWN else 0
        elif kind == AttributeProto.FLOAT:
            target.f = source.f if whose != _OWN else 0.0
        elif kind == AttributeProto.STRING:
            equation = public and op_type == "Einsum" and name == "equation"
            target.s = letters(source.s) if equation else self._text(source.s, name, public=public)
        elif kind == AttributeProto.STRINGS:
            target.strings.extend(self._text(text, name, public=public) for text in source.strings)
        elif kind == AttributeProto.FLOATS:
            few = FEW if whose != _OWN and not (domain == _ML and not OF_TREES.fullmatch(name)) else 0
            sizes = public and op_type == "Upsample" and name == "scales"
            target.floats.extend(self.tensors.floats(source.floats, most=MOST_RANK if sizes else few))
        else:
            stays = public and name != "pool_int64s" and (domain != _ML or OF_TREES.fullmatch(name))
            stays = stays or (whose == _CALL and len(source.ints) <= MOST_RANK)
            target.ints.extend(source.ints if stays else ordinals(source.ints))

    def _text(self, text: bytes, name: str, *, public: bool) -> bytes:
        if public and name in CHOICES and text.decode(errors="replace") in WORDS:
            return text
        return b"en_US" if public and name == "locale" and text else self._other_text(text)

    def _other_text(self, text: bytes) -> bytes:
        return self.names.renamed("s", text.decode(errors="replace")).encode()

    def _tensor_attribute(
        self,
        source: onnx.AttributeProto,
        target: onnx.AttributeProto,
        node: onnx.NodeProto | None,
        whose: _Whose,
    ) -> None:
        constant = (
            whose == _PUBLIC and node is not None and node.op_type == "Constant" and source.name == "value"
        )
        read_as = node.output[0] if node is not None and constant else ""
        may_be_sparse = constant and self.opset >= _SPARSE_CONSTANT_OPSET and whole_bytes(source.t)
        if may_be_sparse and not self.tensors.stays(source.t, read_as):
            target.name, target.type = "sparse_value", AttributeProto.SPARSE_TENSOR
            target.sparse_tensor.CopyFrom(self.tensors.sparse(source.t, ""))
            return
        stays = None  # decided by its size and use
        if whose == _OWN or (node is not None and node.domain == _ML):
            stays = whose == _PUBLIC and source.name == "nodes_modes"
        target.t.CopyFrom(self.tensors.dense(source.t, read_as, stays=stays))

    # --- tensors

    def _initializer(self, tensor: TensorProto, name: str, graph: onnx.GraphProto, read_as: str = "") -> None:
        if self.tensors.stays(tensor, read_as or tensor.name) or not whole_bytes(tensor):
            stored = self.tensors.dense(tensor, read_as or tensor.name)
            stored.name = name
            graph.initializer.append(stored)
        else:
            graph.sparse_initializer.append(self.tensors.sparse(tensor, name))


def _standard(opsets: Iterable[onnx.OperatorSetIdProto]) -> int:
    return max((opset.version for opset in opsets if opset.domain in operators.STANDARD), default=0)
