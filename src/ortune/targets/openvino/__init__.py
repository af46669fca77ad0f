"""Processors, GPUs and NPUs of Intel, by OpenVINO."""

from ortune.targets.target import DESKTOP, Target

TARGET = Target(
    name="openvino",
    provider="OpenVINOExecutionProvider",
    wheel="onnxruntime-openvino",
    systems=DESKTOP,
    plugin="onnxruntime-ep-openvino",
    made="openvino",
    ships=True,
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
)
