"""Writing a model that was opened, and perhaps changed, to a file of its own.

``ir.save`` alone is a trap here: a ``FileTensor`` is written as a reference to the file it was opened from.
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
"""Above this the weights go to ``<name>.data`` next to the model; protobuf itself ends at 2 GiB."""
SMALL_BYTES = 1024
"""Tensors up to this stay inside the model whatever its size, as ONNX's own tools have it."""
_LIST_BYTES = 1 << 20
_WHOLE_NUMBERS = (ir.DataType.INT64, ir.DataType.INT32)


@without_collection()
def save_model(model: ir.Model, path: Path, *, inline_limit_bytes: int = INLINE_LIMIT_BYTES) -> None:
    """Write ``model`` to ``path`` with all its weights; ``model`` is not changed.

    Raises:
        OSError: The file cannot be written.
    """
    copy = model.clone()
    _detach(copy)
    if sum(t.nbytes for t in tensors(copy) if t.dtype != ir.DataType.STRING) > inline_limit_bytes:
        _unload(copy, path)
    proto = ir.to_proto(copy)
    _restore_map_types(model, proto)
    path.write_bytes(proto.SerializeToString())


def in_memory(model: ir.Model) -> onnx.ModelProto:
    """Return the model with all its weights inside, those of attributes too; ``model`` is not changed."""
    copy = model.clone()
    _detach(copy)
    return ir.to_proto(copy)


@contextlib.contextmanager
def staged_model(model: ir.Model | Path, place: Path, *, external: bool) -> Iterator[Path]:
    """Yield a folder next to the model's place, in which it is written whole; the folder is removed afterwards.

    Args:
        model: Not changed; a finished file is copied as it is.
        place: Where it is to be delivered; it has its final name already, which a file of weights is known by.
        external: Weights of any size go to a file of their own, as they did before.

    Raises:
        ModelError: It cannot be written there.
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
            # Weights are looked for beside the link by some, and beside what it leads to by others.
            raise ModelError(
                "The output is a symbolic link, which a model with external data cannot replace.",
                where=str(place),
                do=f"Pass its target instead: --output {shlex.quote(str(place.resolve()))}",
            )
        yield staged


def deliver_model(staged: Path, place: Path, *, typed: bool, replace: bool) -> None:
    """Put a staged model, and its file of weights, in its place.

    Args:
        staged: As ``staged_model`` has it.
        place: The model's place.
        typed: The user wrote this very path: where it is a link, what it leads to is written.
        replace: What is there may be replaced.

    Raises:
        ModelError: It cannot be put there.
        UsageError: Something is there that is not to be replaced: without ``replace`` anything, with it what another
            model reads its weights from.
    """
    with _named_as_unwritable(place):
        # The weights first: without them the model is none.
        parts = sorted(staged.parent.iterdir(), key=lambda part: part.name == place.name)
        targets = [place.with_name(part.name) for part in parts]
        for target in targets:
            if not replace:
                require_free(target)
            if target.is_symlink() and not typed:
                raise ModelError("The output is a symbolic link.", where=str(target), do="Use --output.")
        _require_unread([target for target in targets if files.exists(target)], place)
        for part, target in zip(parts, targets, strict=True):
            files.put(part, target, typed=typed)


def _require_unread(targets: Sequence[Path], place: Path) -> None:
    """Refuse to replace a file that a model in its folder reads its weights from, other than the one that is replaced.

    Raises:
        UsageError: One does.
    """
    replaced = {target.resolve(): target for target in targets}
    for other in sorted(place.parent.glob("*.onnx")) if replaced else []:
        if other.resolve() in (place.resolve(), *replaced):
            continue
        try:
            beside = [path.resolve() for path, _, _ in open_model(other).stamps[1:]]
        except ModelError:  # what cannot be opened has lost its weights already, or never had any
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
    """Refuse, before a model is made, a place where it could not be delivered.

    Args:
        place: The model's place.
        replace: What is there may be replaced.

    Raises:
        UsageError: It cannot be written there, or something is there that is not to be replaced.
    """
    files.require_writable(place, "--output", for_model=True)
    if not replace:
        require_free(place)


def require_free(place: Path) -> None:
    """Refuse to replace what is there.

    Raises:
        UsageError: Something is there.
    """
    if files.exists(place):
        raise UsageError(
            "already exists and is not replaced",
            where=str(place),
            do="choose another --output, or add --force",
        )


def _unload(model: ir.Model, path: Path) -> None:
    """Move the weights to a file next to the model.

    ONNX Runtime infers shapes before it reads that file, and refuses a model whose sizes lie there: the shape of a
    Reshape, the starts of a Slice, the parts of a Split.
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
    """Return whether a tensor may lie outside of the model: nothing small, and no list that sizes may be read from."""
    if tensor.dtype == ir.DataType.STRING or tensor.nbytes <= SMALL_BYTES:
        return False
    is_list = len(tensor.shape) <= 1 and tensor.dtype in _WHOLE_NUMBERS
    return not (is_list and tensor.nbytes <= _LIST_BYTES)


def _detach(model: ir.Model) -> None:
    """Make every tensor that lies in a file one that is read when it is written."""
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
