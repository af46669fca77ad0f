"""Qualcomm NPUs, through QNN."""

from ortune.providers.provider import DESKTOP, Bindings, Build, Provider

PROVIDER = Provider(
    name="QNNExecutionProvider",
    target="qnn",
    wheel="onnxruntime-qnn",
    plugin="onnxruntime-qnn",
    builds=(
        Build(
            wheel="onnxruntime-qnn",
            releases=(("2.7.0", ""),),
            beside="1.32.0",
            about_bytes=410_000_000,
            emulated_on=("x86_64", "AMD64"),
            what=(
                "Qualcomm NPUs, and their x86-64 emulator: correct outputs, meaningless times; its libraries "
                "have Qualcomm's licence"
            ),
        ),
    ),
    systems=DESKTOP,
    ships=True,
    options=frozenset(
        {
            "backend_type",
            "device_id",
            "htp_arch",
            "soc_model",
            "vtcm_mb",
            "htp_performance_mode",
            "rpc_control_latency",
            "htp_graph_finalization_optimization_mode",
            "enable_htp_fp16_precision",
            "offload_graph_io_quantization",
        }
    ),
    needs=(("backend_type", "htp"),),
    bindings=Bindings(by_name="QNN", java_map="addQnn", node="qnn", rust="QNN"),
    hardware="npu",
    compiles=True,
    saves_compiled=True,
    standard_operators=True,
    fixed_sizes=True,
)
