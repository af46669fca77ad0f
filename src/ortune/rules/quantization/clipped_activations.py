"""Activations exceed the range that their quantization can represent.

What it is: values that go into QuantizeLinear and are larger or smaller than the largest or smallest number that its
    scale and zero point can represent. They are clipped to it.
Why it costs: the model loses what the activations hold beyond the range. Its outputs differ from those of the model
    before quantization, often strongly, although every node is correct.
Evidence: one unoptimised run with the values of QuantizeLinear's inputs, which lose more than a tenth of their norm.
Fix and its safety: advice: calibrate with inputs like these, if they are real ones. Generated inputs may have values
    that the model never sees: pass real ones with ``--inputs`` before anything is concluded.
Example: a model calibrated on images of 0 to 1, and fed with pixels of 0 to 255
References: ONNX operators, "QuantizeLinear"; ONNX Runtime documentation, "Quantize ONNX models".
"""

from __future__ import annotations

from collections.abc import Iterator

from ortune.printable import amount
from ortune.records import Finding
from ortune.rules._words import listed
from ortune.rules.facts import Facts

CODE = "QNT019"


def find(facts: Facts) -> Iterator[Finding]:
    """Yield a finding if activations exceeded their calibrated range in a run."""
    if not facts.clipped:
        return
    worst, names = facts.clipped[0], [activation.name for activation in facts.clipped]
    activations = amount(len(names), "activation exceeds its", "activations exceed their")
    real = facts.work is not None and bool(facts.work.inputs_path)
    yield Finding(
        code=CODE,
        severity="warning" if real else "note",
        what=f"{activations} calibrated range with these inputs: {listed(names)}",
        where=tuple(names),
        evidence=(
            f"{100 * worst.share:.0f} % of {worst.name} is clipped to {worst.low:.3g} to {worst.high:.3g}, and reaches "
            f"from {worst.least:.3g} to {worst.most:.3g}"
        ),
        fix="calibrate with inputs like these"
        if real
        else "pass real inputs with --inputs: these were generated",
    )
