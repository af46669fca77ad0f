"""Creates provider-aware files: supported nodes stay plain ONNX, all others are optimised for the CPU.

ONNX Runtime can write such a file only in a build with that provider. Here the optimiser gets the model without the
kept nodes, and the kept nodes are put back between the optimised nodes.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection
from pathlib import Path

import msgspec
import onnx_ir as ir

from ortune.engines.ort_format.regions import put_back, rest_of, with_types
from ortune.graph.model.graphs import subgraphs
from ortune.graph.model.open import OpenModel, open_model
from ortune.graph.model.operators import STANDARD, dotted
from ortune.graph.model.save import save_model
from ortune.graph.ort_files import KEPT_FOR
from ortune.printable import amount
from ortune.records import AwareFile
from ortune.rewrites import Tool, repair_saved, stamp_model

Takes = Callable[[ir.Model], Collection[ir.Node]]
"""Function that returns the nodes of a model's main graph that a provider supports."""


def basic_model(source: OpenModel, folder: Path, tool: Tool, platform: str) -> ir.Model:
    """Return the model after level basic, with the type of every value.

    Raises:
        OrtuneError: ONNX Runtime does not load the model.
    """
    plain, typed = folder / "basic.onnx", folder / "basic.ort"
    params = {"level": "basic", "platform": platform}
    tool("optimize", source.path, plain, params)
    # Only ORT format stores the types of the values between nodes.
    tool("ort-format", source.path, typed, {**params, "style": "fixed"})
    model = open_model(plain).ir
    repair_saved(source.ir, model)
    with_types(model, open_model(typed).ir)
    return model


def aware_model(
    basic: ir.Model, provider: str, takes: Takes, folder: Path, tool: Tool, *, level: str, platform: str
) -> tuple[ir.Model | None, AwareFile]:
    """Return the model with the provider's nodes unchanged, and all other nodes optimised at the given level.

    Args:
        basic: The model after level basic.
        provider: Target name of the provider.
        takes: Selects the nodes that the provider supports.
        folder: Folder for temporary files.
        tool: Callback for operations that need ONNX Runtime.
        level: ``extended`` or ``all``.
        platform: ``any``, ``arm`` or ``amd64``.

    Returns:
        The model, or None if nothing would be optimised; and the record of the kept nodes.

    Raises:
        OrtuneError: The other nodes cannot be optimised separately, or cannot be joined with the kept nodes.
    """
    order = list(basic.graph)
    taken = {node for node in takes(basic) if node.domain in STANDARD and not list(subgraphs(node))}
    kept = [place for place, node in enumerate(order) if node in taken]
    record = AwareFile(
        provider=provider,
        level=level,
        n_kept=len(kept),
        n_rest=len(order) - len(kept),
        n_rest_after=len(order) - len(kept),
    )
    if not kept:
        return None, _refused(record, f"{provider} supports no node: level {level} gives the same file")
    if len(kept) == len(order):
        return None, _refused(record, f"{provider} supports every node: level basic gives the same file")
    rest = rest_of(basic, kept)
    save_model(rest, folder / "rest.onnx")
    optimised = folder / "rest-optimised.onnx"
    tool("optimize", folder / "rest.onnx", optimised, {"level": level, "platform": platform})
    after = open_model(optimised).ir
    if _operators(after) == _operators(rest):
        which = amount(record.n_rest, "node that is", "nodes that are")
        return None, _refused(record, f"level {level} does not change the {which} on the CPU")
    # Names with a dot have a domain other than ONNX's: fused nodes, as opposed to moved or folded ones.
    own = Counter({name: n for name, n in _operators(after).items() if "." in name})
    names = {value.name for place in kept for value in order[place].outputs}
    whole = put_back(basic, kept, after)
    n_kept = sum(node.outputs[0].name in names for node in whole.graph)
    record = msgspec.structs.replace(
        record,
        n_kept=n_kept,
        n_rest_after=len(whole.graph) - n_kept,
        made=dict((own - _operators(rest)).most_common()),
    )
    whole.metadata_props[KEPT_FOR] = provider
    stamp_model(whole, "ort-format")
    return whole, record


def _refused(record: AwareFile, why: str) -> AwareFile:
    return msgspec.structs.replace(record, gains_nothing=why)


def _operators(model: ir.Model) -> Counter[str]:
    return Counter(dotted(n.domain, n.op_type) for n in model.graph)
