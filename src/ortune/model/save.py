"""Writing a model that was opened, and perhaps changed, to a file of its own.

``ir.save`` alone is a trap here: a ``FileTensor`` is written as a reference to the file it was opened from.
"""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path

import onnx
import onnx_ir as ir

from ortune import files
from ortune.errors import ModelError, UsageError
from ortune.model.graphs import MAP_TYPE_PROTO, attribute_tensors, graphs, tensors

INLINE_LIMIT_BYTES = 1 << 30
"""Above this the weights go to ``<name>.data`` beside the model; protobuf itself ends at 2 GiB."""


def save_model(model: ir.Model, path: Path, *, inline_limit_bytes: int = INLINE_LIMIT_BYTES) -> None:
    """Write ``model`` to ``path`` with all its weights; ``model`` is not changed.

    Raises:
        OSError: The file cannot be written.
    """
    copy = model.clone()
    _detach(copy)
    if sum(t.nbytes for t in tensors(copy) if t.dtype != ir.DataType.STRING) > inline_limit_bytes:
        ir.external_data.unload_from_model(copy, path.parent, path.name + ".data")
    proto = ir.to_proto(copy)
    _restore_map_types(model, proto)
    path.write_bytes(proto.SerializeToString())


def deliver_model(model: ir.Model | Path, place: Path, *, external: bool, typed: bool, replace: bool) -> None:
    """Writes a model for the user, whole or not at all; a file of weights lies beside it.

    Args:
        model: Not changed; a finished file is copied as it is.
        place: The model's place.
        external: Weights of any size go to a file of their own, as they did before.
        typed: The user wrote this very path: where it is a link, what it leads to is written.
        replace: What is there may be replaced.

    Raises:
        ModelError: It cannot be written there.
        UsageError: Something is there that is not to be replaced.
    """
    try:
        # Under the final name, which a file of weights is known by.
        with tempfile.TemporaryDirectory(dir=place.resolve().parent, prefix=".ortune-") as folder:
            limit = 0 if external else INLINE_LIMIT_BYTES
            if isinstance(model, Path):
                shutil.copyfile(model, Path(folder) / place.name)
            else:
                save_model(model, Path(folder) / place.name, inline_limit_bytes=limit)
            # The weights first: without them the model is none.
            parts = sorted(Path(folder).iterdir(), key=lambda part: part.name == place.name)
            targets = [place.with_name(part.name) for part in parts]
            for target in targets:
                if not replace:
                    require_free(target)
                if target.is_symlink() and not typed:
                    raise ModelError("A link is in the way.", where=str(target), do="Use --output.")
            for part, target in zip(parts, targets, strict=True):
                files.put(part, target, typed=typed)
    except OSError as error:
        raise ModelError(
            f"The model cannot be written: {error.strerror or error}.",
            where=str(place),
            do="Give another place with --output.",
        ) from error


def require_place(place: Path, *, replace: bool) -> None:
    """Refuses, before a model is made, a place where it could not be delivered.

    Args:
        place: The model's place.
        replace: What is there may be replaced.

    Raises:
        UsageError: It cannot be written there, or something is there that is not to be replaced.
    """
    files.require_writable(place, "--output")
    if not replace:
        require_free(place)


def require_free(place: Path) -> None:
    """Refuses to replace what is there.

    Raises:
        UsageError: Something is there.
    """
    if files.exists(place):
        raise UsageError(
            "is there already, and nothing is replaced unasked",
            where=str(place),
            do="choose another --output, or add --force",
        )


def _detach(model: ir.Model) -> None:
    """Make every tensor that lies in a file one that is read when it is written."""
    for graph in graphs(model):
        if isinstance(graph, ir.Graph):
            for value in graph.initializers.values():
                if isinstance(value.const_value, ir.ExternalTensor):
                    value.const_value = _read_late(value.const_value)
        for node in graph:
            for name, attribute in list(node.attributes.items()):
                held = attribute_tensors(attribute)
                if any(isinstance(tensor, ir.ExternalTensor) for tensor in held):
                    late = [_read_late(tensor) for tensor in held]
                    node.attributes[name] = (
                        ir.AttrTensor(name, late[0])
                        if attribute.type == ir.AttributeType.TENSOR
                        else ir.AttrTensors(name, late)
                    )


def _read_late(tensor: ir.TensorProtocol) -> ir.TensorProtocol:
    return ir.LazyTensor(lambda: tensor, tensor.dtype, ir.Shape(tensor.shape.numpy()), name=tensor.name)


def _restore_map_types(model: ir.Model, proto: onnx.ModelProto) -> None:
    known = {v.name: v.meta.get(MAP_TYPE_PROTO) for v in (*model.graph.inputs, *model.graph.outputs)}
    for info in (*proto.graph.input, *proto.graph.output):
        kept = known.get(info.name)
        if isinstance(kept, onnx.TypeProto):
            info.type.CopyFrom(kept)
