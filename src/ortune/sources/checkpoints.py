"""The check that only the saver of a SavedModel runs operators that read or write checkpoints.

TensorFlow's saver has one function that saves the variables and one that restores them, with file names as arguments.
If a signature or an initializer ran one of their operators, it could name any file.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

_WRITE = frozenset({"MergeV2Checkpoints", "Save", "SaveSlices", "SaveV2"})
OF_SAVERS = _WRITE | {"Restore", "RestoreSlice", "RestoreV2", "ShardedFilename", "ShardedFilespec"}


def misplaced(meta: Any) -> str:
    """Return a checkpoint operator that something other than the saver runs; "" if there is none.

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
    """Return the first of ``operators`` in these nodes and in all functions that they call; "" if there is none."""
    reached = [*nodes, *_nodes_of((name for node in nodes for name in _function_names(node)), functions)]
    return next((node.op for node in reached if node.op in operators), "")


def _nodes_of(names: Iterable[str], functions: Mapping[str, Sequence[Any]]) -> list[Any]:
    """Return the nodes of the named functions, and of all functions that these call."""
    seen, waiting, found = set[str](), list(names), list[Any]()
    while waiting:
        name = waiting.pop()
        if name in seen or name not in functions:
            continue
        seen.add(name)
        found += functions[name]
        waiting += [called for node in functions[name] for called in _function_names(node)]
    return found


def _function_names(node: Any) -> list[str]:
    """Return the names of the functions that a node may call."""
    values = node.attr.values()
    return [node.op, *(v.func.name for v in values), *(f.name for v in values for f in v.list.func)]


def _above(graph: Mapping[str, Any], names: Iterable[str]) -> list[Any]:
    """Return the nodes of the main graph with these names, and all nodes on whose outputs they depend."""
    seen, waiting, found = set[str](), list(names), list[Any]()
    while waiting:
        name = waiting.pop().lstrip("^").partition(":")[0]
        if name in seen or name not in graph:
            continue
        seen.add(name)
        found.append(graph[name])
        waiting += graph[name].input
    return found
