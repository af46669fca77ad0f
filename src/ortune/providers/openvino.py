"""Intel CPUs, GPUs and NPUs, through OpenVINO."""

from ortune.providers.provider import DESKTOP, Bindings, Build, Provider

PROVIDER = Provider(
    name="OpenVINOExecutionProvider",
    target="openvino",
    wheel="onnxruntime-openvino",
    systems=DESKTOP,
    plugin="onnxruntime-ep-openvino",
    device="CPU",
    ships=True,
    builds=(
        Build(
            wheel="onnxruntime-ep-openvino",
            releases=(("1.8.1", "2026.4.1"),),
            beside="1.32.0",
            about_bytes=320_000_000,
            what="OpenVINO 2026.4 kernels, for Intel CPUs, GPUs and NPUs only",
            vendor="Intel",
        ),
        Build(
            wheel="onnxruntime-openvino",
            releases=(("1.24.1", "2025.4.1"), ("1.23.0", "2025.3.0"), ("1.22.0", "2025.1.0")),
            library="openvino",
            about_bytes=370_000_000,
            what="OpenVINO 2025.4 kernels for Intel and AMD CPUs; half the latency on some models, no gain on others",
        ),
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
    saves_compiled=True,
)
