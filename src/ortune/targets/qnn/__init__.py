"""NPUs of Qualcomm."""

from ortune.targets.target import DESKTOP, Target

TARGET = Target(
    name="qnn",
    provider="QNNExecutionProvider",
    wheel="onnxruntime-qnn",
    systems=DESKTOP,
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
)
