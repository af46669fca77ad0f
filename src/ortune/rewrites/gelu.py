"""Fuses arithmetic around Erf or Tanh into Gelu.

What it is: ``0.5 * x * (1 + erf(x / sqrt(2)))``, and the same with ``tanh(0.79788 * (x + 0.044715 * x^3))``, in any
    order of factors: the nodes are matched by what they compute on sample values. It becomes one Gelu: the standard
    operator from opset 20, before that Gelu and FastGelu of ``com.microsoft``.
Why it costs: five to nine passes over the widest tensors of a transformer. On a CPU, ONNX Runtime fuses Erf only in the
    order that torch's older exporter writes. It fuses Tanh only as the product of ``0.5 * x`` and the sum, with the
    cube as Pow. It does not fuse the forms of torch's newer exporter, Paddle and JAX. Patterns that ONNX Runtime fuses
    itself are not touched.
Evidence: consecutive Erf or Tanh, Mul and Add nodes with similar times in the profile.
Fix and its safety: exact: the same function; only rounding differs.
Example: ``--rewrite gelu``
References: Hendrycks and Gimpel, "Gaussian Error Linear Units", 2016; ONNX operators, "Gelu".
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import onnx_ir as ir

from ortune.graph.constants import Array
from ortune.graph.shapes.nearby import least_rank
from ortune.rewrites._editor import Editor
from ortune.rewrites._pattern import Pattern, PatternFacts
from ortune.rewrites._probe import (
    Form,
    elementwise_ancestors,
    evaluate_on_probes,
    form_of,
    meets_another,
    nodes_between,
)

_STANDARD_OPSET = 20  # first opset with Gelu as a standard operator
_MICROSOFT = "com.microsoft"
_FOLLOWED = 24  # maximum values to evaluate from x
_ABOVE = 6  # maximum nodes from Erf or Tanh upstream to x
_NEAR = 2e-6  # tolerance: constants are stored in float32, some with eight digits
_POINTS: Array = np.concatenate([np.linspace(-12, 12, 193), np.linspace(-0.5, 0.5, 33)])
_SAMPLE = 105  # index of a point for a quick comparison
_FAR = 1e-3  # maximum error at this point; the full comparison follows
_ERF: Array = 0.5 * _POINTS * (1 + np.vectorize(math.erf)(_POINTS / math.sqrt(2)))
_TANH: Array = 0.5 * _POINTS * (1 + np.tanh(math.sqrt(2 / math.pi) * (_POINTS + 0.044715 * _POINTS**3)))


@dataclass(frozen=True, slots=True, kw_only=True)
class _Match:
    """A matched Gelu.

    Attributes:
        x, y: Input and output.
        anchor: The Erf or Tanh.
    """

    x: ir.Value
    y: ir.Value
    anchor: ir.Node

    @property
    def by_tanh(self) -> bool:
        """Whether the match is the tanh approximation."""
        return self.anchor.op_type == "Tanh"


def _match(anchor: ir.Node, _: PatternFacts) -> _Match | str:
    """Match the Gelu around an Erf or Tanh, or return the reason for a near miss ("" if unrelated)."""
    if not meets_another(anchor.outputs[0], _FOLLOWED, anchor.graph):
        return ""  # a Gelu multiplies by x
    for x in elementwise_ancestors(anchor, _ABOVE):
        computed = evaluate_on_probes(
            x, [_POINTS], rank=least_rank(x), axes=0, limit=_FOLLOWED, scope=anchor.graph
        )
        if anchor.outputs[0] not in computed:
            continue
        for y in computed:
            values, wanted = computed[y][0], _TANH if anchor.op_type == "Tanh" else _ERF
            if abs(values[_SAMPLE] - wanted[_SAMPLE]) > _FAR or not np.allclose(values, wanted, _NEAR, _NEAR):
                continue
            if anchor in nodes_between(x, y, computed)[0]:  # else it is another anchor's Gelu
                what = f"the Gelu around {anchor.op_type} {anchor.name!r}"
                form = form_of(what, x, y, computed)
                if isinstance(form, Form) and form.is_fused:
                    return f"ONNX Runtime itself fuses {what}"
                return form if isinstance(form, str) else _Match(x=x, y=y, anchor=anchor)
    return ""


def _replace(editor: Editor, match: _Match, look: PatternFacts) -> None:
    at = match.y.producer()
    assert at is not None
    name = f"{at.name or match.y.name or 'activation'}_gelu"
    if look.opset >= _STANDARD_OPSET:
        attributes = [ir.AttrString("approximate", "tanh")] if match.by_tanh else []
        output = editor.node(at, "Gelu", [match.x], attributes, name=name)
    else:
        operator = "FastGelu" if match.by_tanh else "Gelu"
        output = editor.node(at, operator, [match.x], name=name, domain=_MICROSOFT)
    editor.replace(match.y, output)


PATTERN = Pattern(
    anchors=("Erf", "Tanh"),
    match=_match,
    replace=_replace,
    end=lambda match: match.y.producer(),
    made="Fused {n} Gelu.",
    proposed="{n} Gelu {is|are} not fused",
    none="the model has no Gelu pattern around Erf or Tanh",
    repeats=True,
)
REWRITE = PATTERN.rewrite(name="gelu", summary="fuses arithmetic around Erf or Tanh into Gelu", stage=3)
