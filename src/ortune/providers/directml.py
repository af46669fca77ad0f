"""GPUs of any vendor, through DirectML."""

from ortune.providers.provider import Bindings, Build, Provider

PROVIDER = Provider(
    name="DmlExecutionProvider",
    target="directml",
    wheel="onnxruntime-directml",
    systems=("Windows",),
    builds=(
        Build(
            wheel="onnxruntime-directml",
            releases=(("1.24.4", ""),),
            about_bytes=160_000_000,
            what="kernels for GPUs of any vendor, through Direct3D 12; untested by ortune",
        ),
    ),
    options=frozenset(
        {
            "device_id",
            "performance_preference",
            "device_filter",
            "disable_metacommands",
        }
    ),
    bindings=Bindings(by_name="DML", java_device=("addDirectML", "device_id"), node="dml"),
    hardware="gpu",
    queues=True,
    memory="dml",
    graph_option="ep.dml.enable_graph_capture",
    float16=True,
)
