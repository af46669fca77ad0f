"""A PyTorch model: an exported program in a ``.pt2`` file, or a module returned by a user's function."""

from __future__ import annotations

import contextlib
import importlib.metadata
import inspect
import logging
import os
import pickle
import re
import shutil
import sys
import tempfile
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import torch
from torch.utils import _pytree as pytree

from .exported_archive import write_checked
from .source import ExportResult, Input, SourceRefused, made_by_function, onnx_type

DYNAMO, SCRIPT = "dynamo", "torchscript"
_GLOBAL = re.compile(r"GLOBAL ([\w.]{1,100})", re.ASCII)
"""Matches the refused type in PyTorch's message, most of which explains how to bypass ``weights_only``."""
EAGER, COMPILED = "eager", "torch.compile"


class Torch:
    """A module with the arguments that it is called with.

    Args:
        module: The callable module.
        arguments, named: Its arguments, by position and by name.
        program: The exported program of the module; None for a user's own module.
        is_confined: Whether the process is confined, and thus cannot start a program such as a compiler.
    """

    def __init__(
        self,
        module: Any,
        arguments: Sequence[Any],
        named: Mapping[str, Any],
        program: Any = None,
        *,
        is_confined: bool = False,
    ) -> None:
        self.module, self.program = module, program
        self.arguments, self.named = tuple(arguments), dict(named)
        self.kind = "exported program" if program is not None else "PyTorch module"
        self.framework = "PyTorch %s" % torch.__version__
        self.left_out = _no_compiler(is_confined)
        self.styles: Sequence[str] = (EAGER,) if self.left_out else (EAGER, COMPILED)
        self.exporters = (DYNAMO,) if program is not None else (DYNAMO, SCRIPT)
        self.versions = _versions()
        leaves, self.tree = pytree.tree_flatten((self.arguments, self.named))
        names = _names(module if program is None else None, self.arguments, self.named, program, len(leaves))
        self.leaves = list(zip(names, leaves, strict=True))
        tensors = [(name, leaf) for name, leaf in self.leaves if isinstance(leaf, torch.Tensor)]
        open_axes = _open_axes(program)
        self.inputs: Sequence[Input] = [
            Input(
                name,
                onnx_type(_array(leaf).dtype),
                [None if (name, axis) in open_axes else n for axis, n in enumerate(leaf.shape)],
            )
            for name, leaf in tensors
        ]
        self.example: Mapping[str, Any] = {name: _array(leaf) for name, leaf in tensors}

    def export(
        self, exporter: str, dynamic: Mapping[str, Mapping[int, str]], opset: int, path: str
    ) -> ExportResult:
        """Export with ``torch.onnx.export``, with the given axes dynamic."""
        names = [tensor.name for tensor in self.inputs]
        options: dict[str, Any] = {"input_names": names, "external_data": False}
        if opset:
            options["opset_version"] = opset
        logging.getLogger("torch.onnx").setLevel(logging.ERROR)
        with warnings.catch_warnings(record=True) as caught, torch.no_grad():
            warnings.simplefilter("always")
            if self.program is not None:
                torch.onnx.export(self.program, (), path, dynamo=True, verbose=False, **options)
            elif exporter == DYNAMO:
                torch.onnx.export(
                    self.module, self.arguments, path, kwargs=self.named, dynamo=True, verbose=False,
                    dynamic_shapes=self._shapes(dynamic), **options,
                )  # fmt: skip
            else:
                torch.onnx.export(
                    self.module, self.arguments, path, kwargs=self.named, dynamo=False,
                    dynamic_axes={name: dict(axes) for name, axes in dynamic.items()} or None, **options,
                )  # fmt: skip
        messages = [
            str(warning.message).partition("\n")[0]
            for warning in caught
            if issubclass(warning.category, torch.jit.TracerWarning)
        ]
        return ExportResult(inputs={name: name for name in names}, messages=messages)

    def _shapes(self, dynamic: Mapping[str, Mapping[int, str]]) -> Any:
        """Return the dynamic axes in the structure of the arguments; None if there are none."""
        if not dynamic:
            return None
        axes = [
            dict(dynamic.get(name, {})) if isinstance(leaf, torch.Tensor) else None
            for name, leaf in self.leaves
        ]
        positional, named = pytree.tree_unflatten(axes, self.tree)
        parameters = list(inspect.signature(self.module.forward).parameters)
        return {**dict(zip(parameters, positional, strict=False)), **named}

    def threads(self) -> int | None:
        """Return the threads of operators."""
        count: int = torch.get_num_threads()
        return count

    def prepared(self, feeds: Mapping[str, Any], style: str = EAGER) -> Callable[[], Any]:
        """Return a function that calls the module once, without gradients."""
        arguments, named = self._arguments(feeds)
        call = torch.compile(self.module) if style == COMPILED else self.module

        def run() -> Any:
            with torch.inference_mode():
                return call(*arguments, **named)

        return run

    def outputs_of(self, result: Any, feeds: Mapping[str, Any]) -> list[tuple[str, Any]]:
        """Return the tensors of a result, in order."""
        leaves = [leaf for leaf in pytree.tree_leaves(result) if isinstance(leaf, torch.Tensor)]
        return [("output_%d" % i, _array(leaf)) for i, leaf in enumerate(leaves)]

    def _arguments(self, feeds: Mapping[str, Any]) -> Any:
        leaves = [
            _tensor(feeds[name], leaf.dtype) if name in feeds and isinstance(leaf, torch.Tensor) else leaf
            for name, leaf in self.leaves
        ]
        return pytree.tree_unflatten(leaves, self.tree)


def open_source(request: Mapping[str, Any]) -> Torch:
    """Return the opened ``.pt2`` file, or the module that the user's function returns."""
    torch.set_num_threads(request["threads"] or torch.get_num_threads())
    torch.manual_seed(0)
    is_confined = request.get("fence") is not None
    if not request["factory"]:
        return _of_program(_program(request["source"]), is_confined)
    product = made_by_function(request["source"], request["folder"])
    if isinstance(product, torch.export.ExportedProgram):
        return _of_program(product, is_confined)
    module, *rest = product if isinstance(product, tuple) else (product,)
    if not isinstance(module, torch.nn.Module):
        raise SourceRefused(
            "the function returned a %s, which is not a torch.nn.Module" % type(module).__name__,
            "return the module, or (module, example inputs)",
        )
    arguments, named = _example(module, rest, request["shapes"])
    return Torch(module.eval(), arguments, named, is_confined=is_confined)


def _program(path: str) -> Any:
    """Read an exported program from a ``.pt2`` file with ``weights_only``."""
    try:
        checked = os.path.join(tempfile.mkdtemp(prefix="checked-"), "model.pt2")
        write_checked(path, checked)
        with _weights_only():
            return torch.export.load(checked)
    except SourceRefused:
        raise
    except pickle.UnpicklingError as error:
        named = _GLOBAL.search(str(error))
        what = "a pickled object" if named is None else "objects of %s" % named[1]
        raise SourceRefused(
            "the file contains more than tensors: %s, which weights_only=True refuses" % what,
            "pass the function that creates the model: module:function",
        ) from error
    except Exception as error:  # RuntimeError, KeyError, or an error of zipfile or json
        raise SourceRefused(
            "it is not an exported program: %s" % (str(error).partition("\n")[0] or type(error).__name__),
            "save it with torch.export.save(torch.export.export(model, inputs), 'model.pt2')",
        ) from error


@contextlib.contextmanager
def _weights_only() -> Iterator[None]:
    """Restrict ``torch.export.load``, which unpickles anything, to reading tensors."""
    load = torch.load

    def weights(*args: Any, **options: Any) -> Any:
        return load(*args, **{**options, "weights_only": True})

    def refuse(*args: Any, **options: Any) -> Any:
        raise pickle.UnpicklingError("it has a pickled object")

    places = [(torch, "load", weights), (pickle, "loads", refuse)]
    if hasattr(torch._C, "_pickle_load_obj"):
        places.append((torch._C, "_pickle_load_obj", refuse))
    kept = [(owner, name, getattr(owner, name)) for owner, name, _ in places]
    for owner, name, function in places:
        setattr(owner, name, function)
    try:
        yield
    finally:
        for owner, name, function in kept:
            setattr(owner, name, function)


def _of_program(program: Any, is_confined: bool) -> Torch:
    if program.example_inputs is None:
        raise SourceRefused(
            "the exported program has no example inputs",
            "save it again with torch.export.save, which stores them",
        )
    arguments, named = program.example_inputs
    return Torch(program.module(), arguments, named, program, is_confined=is_confined)


def _example(
    module: Any, rest: Sequence[Any], shapes: Mapping[str, Sequence[int]]
) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Return the positional and named arguments that the user's function returned, or generate them from ``shapes``."""
    if rest:
        example = rest[0]
        if isinstance(example, Mapping):
            return (), dict(example)
        return (tuple(example) if isinstance(example, tuple | list) else (example,)), dict(rest[1]) if len(
            rest
        ) > 1 else {}
    parameters = [
        name
        for name, parameter in inspect.signature(module.forward).parameters.items()
        if parameter.default is parameter.empty and parameter.kind is parameter.POSITIONAL_OR_KEYWORD
    ]
    missing = [name for name in parameters if name not in shapes]
    if missing:
        raise SourceRefused(
            "the function returned no example inputs, and the shape of %r is unknown" % missing[0],
            "return (module, (inputs,)) from it, or pass --shape %s:1x3x224x224" % missing[0],
        )
    return tuple(_made(name, shapes[name]) for name in parameters), {}


def _made(name: str, shape: Sequence[int]) -> Any:
    if any(word in name for word in ("ids", "mask", "token")):
        return torch.ones(tuple(shape), dtype=torch.int64)
    return torch.rand(tuple(shape))


def _names(
    module: Any, arguments: Sequence[Any], named: Mapping[str, Any], program: Any, count: int
) -> list[str]:
    """Return a name for each input: the parameter's, with a number for parts of a nested one."""
    if program is not None:
        names = [str(name) for name in program.graph_signature.user_inputs]
        if len(names) == count:
            return names
    parameters = list(inspect.signature(module.forward).parameters) if module is not None else []
    labels: list[str] = []
    for i, value in enumerate(arguments):
        parts = len(pytree.tree_leaves(value))
        name = parameters[i] if i < len(parameters) else "input_%d" % i
        labels += [name] if parts == 1 else ["%s_%d" % (name, j) for j in range(parts)]
    for name, value in named.items():
        parts = len(pytree.tree_leaves(value))
        labels += [name] if parts == 1 else ["%s_%d" % (name, j) for j in range(parts)]
    return labels


def _open_axes(program: Any) -> set[tuple[str, int]]:
    """Return (input, axis) of every dynamic size of an exported program."""
    if program is None:
        return set()
    axes = set()
    for node in program.graph.nodes:
        value = node.meta.get("val")
        if node.op == "placeholder" and isinstance(value, torch.Tensor):
            axes |= {(node.name, axis) for axis, n in enumerate(value.shape) if not isinstance(n, int)}
    return axes


def _no_compiler(is_confined: bool) -> str:
    """Return why torch.compile cannot build its kernels; "" if it can."""
    if is_confined:
        return "%s starts a C++ compiler, and a confined source starts no program (--trust-source)" % COMPILED
    usual = {"darwin": "clang++", "win32": "cl"}.get(sys.platform, "g++")
    compiler = os.environ.get("CXX") or usual
    there = shutil.which(compiler) is not None
    return "" if there else "%s needs a C++ compiler, and %s is not installed" % (COMPILED, compiler)


def _array(tensor: Any) -> Any:
    """Return a tensor as a numpy array; a type that numpy lacks becomes float32."""
    tensor = tensor.detach().cpu()
    return (tensor.float() if tensor.dtype == torch.bfloat16 else tensor).numpy()


def _tensor(array: Any, dtype: Any) -> Any:
    return torch.from_numpy(np.ascontiguousarray(array)).to(dtype)


def _versions() -> dict[str, str]:
    return {name: importlib.metadata.version(name) for name in ("torch", "onnxscript", "onnx")}
