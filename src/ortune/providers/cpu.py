"""The CPU, with ONNX Runtime's own kernels."""

from ortune.providers.provider import EVERYWHERE, Bindings, Provider

PROVIDER = Provider(
    name="CPUExecutionProvider",
    target="cpu",
    wheel="onnxruntime",
    systems=EVERYWHERE,
    ships=True,
    bindings=Bindings(node="cpu"),
    hardware="cpu",
)
