"""Writing of an opened, possibly modified model to a new file.

``ir.save`` is not sufficient: it writes a ``FileTensor`` as a reference to the file that it was opened from.
"""

from __future__ import annotations

import contextlib
import shlex
import shutil
from collections.abc import Iterator, Sequence
from pathlib import Path

import onnx
import onnx_ir as ir

from ortune import files, temporary
from ortune.errors import ModelError, UsageError
from ortune.graph.model.garbage import without_collection
from ortune.graph.model.graphs import MAP_TYPE_PROTO, attribute_tensors, graphs, tensors
from ortune.graph.model.open import open_model

INLINE_LIMIT_BYTES = 1 << 30
"""Maximum size of inline weights; larger weights go to ``<name>.data`` next to the model. protobuf's limit is 2 GiB."""
SMALL_BYTES = 1024
"""Maximum size in bytes of tensors that always stay inside the model file, as in ONNX's own tools."""
_LIST_BYTES = 1 << 20
_WHOLE_NUMBERS = (ir.DataType.INT64, ir.DataType.INT32)


@without_collection()
def save_model(model: ir.Model, path: Path, *, inline_limit_bytes: int = INLINE_LIMIT_BYTES) -> None:
    """Write ``model`` with all its weights to ``path``; ``model`` is not modified.

    Raises:
        OSError: If the file cannot be written.
    """
    copy = model.clone()
    _detach(copy)
    if sum(t.nbytes for t in tensors(copy) if t.dtype != ir.DataType.STRING) > inline_limit_bytes:
        _unload(copy, path)
    proto = ir.to_proto(copy)
    _restore_map_types(model, proto)
    path.write_bytes(proto.SerializeToString())


def in_memory(model: ir.Model) -> onnx.ModelProto:
    """Return the model as a proto that contains all weights, also those in attributes; ``model`` is not modified."""
    copy = model.clone()
    _detach(copy)
    return ir.to_proto(copy)


@contextlib.contextmanager
def staged_model(model: ir.Model | Path, place: Path, *, external: bool) -> Iterator[Path]:
    """Write a model into a temporary folder next to its destination, yield the path, and remove the folder at the end.

    Args:
        model: The model, which is not modified, or a finished file, which is copied.
        place: Destination. The staged file has the same name, since the name of the weights file contains it.
        external: Whether weights of any size go to a separate file, as in the original model.

    Raises:
        ModelError: If it cannot be written there.
    """
    with contextlib.ExitStack() as stack:
        with _named_as_unwritable(place):
            folder = stack.enter_context(temporary.folder(place.resolve().parent)) / "model"
            folder.mkdir()
            staged = folder / place.name
            if isinstance(model, Path):
                shutil.copyfile(model, staged)
            else:
                save_model(model, staged, inline_limit_bytes=0 if external else INLINE_LIMIT_BYTES)
        if place.is_symlink() and len(list(folder.iterdir())) > 1:
            # Some programs look for weights next to the link, others next to its target.
            raise ModelError(
                "The output is a symbolic link, which a model with external data cannot replace.",
                where=str(place),
                do=f"Pass its target instead: --output {shlex.quote(str(place.resolve()))}",
            )
        yield staged


def deliver_model(staged: Path, place: Path, *, typed: bool, replace: bool) -> None:
    """Move a staged model, and its weights file, to its destination.

    Args:
        staged: Path from ``staged_model``.
        place: Destination of the model.
        typed: Whether the user typed this path. If so, the target of a symbolic link is written, not the link.
        replace: Whether existing files may be replaced.

    Raises:
        ModelError: If it cannot be written there.
        UsageError: If a file exists and ``replace`` is not set, or if an existing file contains the weights of another
            model.
    """
    with _named_as_unwritable(place):
        # The weights first, since the model is unusable without them.
        parts = sorted(staged.parent.iterdir(), key=lambda part: part.name == place.name)
        targets = [place.with_name(part.name) for part in parts]
        for target in targets:
            if not replace:
                require_free(target)
            if target.is_symlink() and not typed:
                raise ModelError("The output is a symbolic link.", where=str(target), do="Use --output.")
        _require_unread([target for target in targets if files.exists(target)], place)
        for part, target in zip(parts, targets, strict=True):
            files.move_into_place(part, target, typed=typed)


def _require_unread(targets: Sequence[Path], place: Path) -> None:
    """Check that no other model in the folder reads its weights from the files that will be replaced.

    Raises:
        UsageError: If another model does.
    """
    replaced = {target.resolve(): target for target in targets}
    for other in sorted(place.parent.glob("*.onnx")) if replaced else []:
        if other.resolve() in (place.resolve(), *replaced):
            continue
        try:
            beside = [path.resolve() for path, _, _ in open_model(other).stamps[1:]]
        except ModelError:  # a model that cannot be opened has no weights to lose
            continue
        for path in beside:
            if path in replaced:
                raise UsageError(
                    f"holds the weights of {other.name} and is not replaced",
                    where=str(replaced[path]),
                    do="choose another --output",
                )


@contextlib.contextmanager
def _named_as_unwritable(place: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise ModelError(
            f"The model cannot be written: {error.strerror or error}.",
            where=str(place),
            do="Choose another --output.",
        ) from error


def require_place(place: Path, *, replace: bool) -> None:
    """Check in advance that a model can be delivered to a destination.

    Args:
        place: Destination of the model.
        replace: Whether an existing file may be replaced.

    Raises:
        UsageError: If the destination cannot be written, or a file exists and ``replace`` is not set.
    """
    files.require_writable(place, "--output", for_model=True)
    if not replace:
        require_free(place)


def require_free(place: Path) -> None:
    """Check that nothing exists at a path.

    Raises:
        UsageError: If something exists.
    """
    if files.exists(place):
        raise UsageError(
            "already exists and is not replaced",
            where=str(place),
            do="choose another --output, or add --force",
        )


def _unload(model: ir.Model, path: Path) -> None:
    """Move the weights to a file next to the model.

    ONNX Runtime infers shapes before it reads that file, and rejects a model whose sizes are stored there: the shape
    of a Reshape, the starts of a Slice, the parts of a Split.
    """
    initializers = (v for g in graphs(model) if isinstance(g, ir.Graph) for v in g.initializers.values())
    weights = [
        (value, value.const_value)
        for value in initializers
        if value.const_value is not None and _is_weight(value.const_value)
    ]
    if not weights:
        return
    external = ir.external_data.convert_tensors_to_external(
        [tensor for _, tensor in weights], path.parent, path.name + ".data"
    )
    for (value, _), tensor in zip(weights, external, strict=True):
        value.const_value = tensor


def _is_weight(tensor: ir.TensorProtocol) -> bool:
    """Return whether a tensor may be stored outside the model; small tensors and lists of possible sizes may not."""
    if tensor.dtype == ir.DataType.STRING or tensor.nbytes <= SMALL_BYTES:
        return False
    is_list = len(tensor.shape) <= 1 and tensor.dtype in _WHOLE_NUMBERS
    return not (is_list and tensor.nbytes <= _LIST_BYTES)


def _detach(model: ir.Model) -> None:
    """Replace every tensor that refers to a file with a tensor whose data is read only while the model is written."""
    for graph in graphs(model):
        if isinstance(graph, ir.Graph):
            for value in graph.initializers.values():
                if isinstance(value.const_value, ir.ExternalTensor):
                    value.const_value = _read_late(value.const_value)
        for node in graph:
            for name, attribute in list(node.attributes.items()):
                tensors = attribute_tensors(attribute)
                if any(isinstance(tensor, ir.ExternalTensor) for tensor in tensors):
                    late = [_read_late(tensor) for tensor in tensors]
                    node.attributes[name] = (
                        ir.AttrTensor(name, late[0])
                        if attribute.type == ir.AttributeType.TENSOR
                        else ir.AttrTensors(name, late)
                    )


def _read_late(tensor: ir.TensorProtocol) -> ir.TensorProtocol:
    return ir.LazyTensor(lambda: tensor, tensor.dtype, ir.Shape(tensor.shape.numpy()), name=tensor.name)


def _restore_map_types(model: ir.Model, proto: onnx.ModelProto) -> None:
    map_types = {v.name: v.meta.get(MAP_TYPE_PROTO) for v in (*model.graph.inputs, *model.graph.outputs)}
    for info in (*proto.graph.input, *proto.graph.output):
        kept = map_types.get(info.name)
        if isinstance(kept, onnx.TypeProto):
            info.type.CopyFrom(kept)
