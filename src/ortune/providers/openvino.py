"""Processors, GPUs and NPUs of Intel, by OpenVINO."""

from ortune.providers.provider import DESKTOP, Bindings, Build, Provider

PROVIDER = Provider(
    name="OpenVINOExecutionProvider",
    target="openvino",
    wheel="onnxruntime-openvino",
    systems=DESKTOP,
    plugin="onnxruntime-ep-openvino",
    ships=True,
    build=Build(
        releases=(("1.24.1", "2025.4.1"), ("1.23.0", "2025.3.0"), ("1.22.0", "2025.1.0")),
        library="openvino",
        about_bytes=370_000_000,
        what="OpenVINO's kernels for the CPU, Intel's and AMD's; on some models half the time, on others nothing",
    ),
    options=frozenset(
        {
            "device_type",
            "precision",
            "num_of_threads",
            "num_streams",
            "model_priority",
            "enable_opencl_throttling",
            "enable_qdq_optimizer",
            "disable_dynamic_shapes",
        }
    ),
    bindings=Bindings(
        by_name="OpenVINO",
        java_device=("addOpenVINO", "device_type"),
        rust="OpenVINO",
        triton=("cpu_execution_accelerator", "openvino"),
    ),
    compiles=True,
)
