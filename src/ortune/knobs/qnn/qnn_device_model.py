"""Which of Qualcomm's chips the graph is compiled for.

What it is: QNN's SoC model number (60 is the Snapdragon X Elite); 0 is the chip of the machine that compiles.
Why it costs: without a number, a host without such a chip compiles for an old generation, which lacks float16 and
    bfloat16.
Evidence: rejected nodes, and load time on the device.
Fix and its safety: the device's number, if graphs are compiled on another machine; numerics, since kernels differ.
Example: ``--target qnn --set qnn_device_model=60``
References: ONNX Runtime documentation, "QNN Execution Provider", ``soc_model``.
"""

from ortune.knobs.knob import Knob
from ortune.providers.qnn import PROVIDER as QNN

KNOB = Knob(
    name="qnn_device_model",
    since="1.18",
    channel="provider_option",
    provider=QNN.name,
    key="soc_model",
    kind="int",
    minimum=0,
    maximum=10000,
    default="0: no chip is named",
    safety="numerics",
    summary="the chip that graphs are compiled for",
)
