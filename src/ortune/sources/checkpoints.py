"""Which operators of a SavedModel read or write checkpoints, and whether anything but the saver runs them.

TensorFlow's saver has a function each that saves and restores the variables, with the names of files as arguments. An
operator of theirs that a signature or an initializer runs may name any file.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

_WRITE = frozenset({"MergeV2Checkpoints", "Save", "SaveSlices", "SaveV2"})
OF_SAVERS = _WRITE | {"Restore", "RestoreSlice", "RestoreV2", "ShardedFilename", "ShardedFilespec"}


def misplaced(meta: Any) -> str:
    """Return an operator that something besides the saver runs; "" if there is none.

    Args:
        meta: A meta graph, as TensorFlow's protocol buffers have it.
    """
    functions = {function.signature.name: function.node_def for function in meta.graph_def.library.function}
    graph = {node.name: node for node in meta.graph_def.node}
    signatures = [info.name for s in meta.signature_def.values() for info in s.outputs.values()]
    listed = [name for collection in meta.collection_def.values() for name in collection.node_list.value]
    ran = [
        *_above(graph, [*signatures, *listed]),
        *_nodes_of(meta.object_graph_def.concrete_functions, functions),
    ]
    restored = _above(graph, [meta.saver_def.restore_op_name])
    return _first(ran, functions, OF_SAVERS) or _first(restored, functions, _WRITE)


def _first(nodes: Sequence[Any], functions: Mapping[str, Sequence[Any]], operators: frozenset[str]) -> str:
    """Return the first of these operators, in these nodes or in any function that they call."""
    reached = [*nodes, *_nodes_of((name for node in nodes for name in _called(node)), functions)]
    return next((node.op for node in reached if node.op in operators), "")


def _nodes_of(names: Iterable[str], functions: Mapping[str, Sequence[Any]]) -> list[Any]:
    """Return the nodes of functions, and of all that these call."""
    seen, waiting, found = set[str](), list(names), list[Any]()
    while waiting:
        name = waiting.pop()
        if name in seen or name not in functions:
            continue
        seen.add(name)
        found += functions[name]
        waiting += [called for node in functions[name] for called in _called(node)]
    return found


def _called(node: Any) -> list[str]:
    """Return the functions that a node may call."""
    values = node.attr.values()
    return [node.op, *(v.func.name for v in values), *(f.name for v in values for f in v.list.func)]


def _above(graph: Mapping[str, Any], names: Iterable[str]) -> list[Any]:
    """Return the nodes of the main graph by these names, and all that run before them."""
    seen, waiting, found = set[str](), list(names), list[Any]()
    while waiting:
        name = waiting.pop().lstrip("^").partition(":")[0]
        if name in seen or name not in graph:
            continue
        seen.add(name)
        found.append(graph[name])
        waiting += graph[name].input
    return found
