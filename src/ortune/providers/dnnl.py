"""CPUs, through oneDNN."""

from ortune.providers.provider import Bindings, Provider

PROVIDER = Provider(
    name="DnnlExecutionProvider",
    target="dnnl",
    aliases=("onednn",),
    otherwise="build ONNX Runtime with --use_dnnl",
    options=frozenset({"num_of_threads"}),
    bindings=Bindings(rust="OneDNN"),
    hardware="cpu",
    compiles=True,
)
