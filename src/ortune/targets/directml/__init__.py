"""GPUs of any maker, by DirectML."""

from ortune.targets.target import Target

TARGET = Target(
    name="directml",
    provider="DmlExecutionProvider",
    wheel="onnxruntime-directml",
    systems=("Windows",),
    options=frozenset(
        {
            "device_id",
            "performance_preference",
            "device_filter",
            "disable_metacommands",
        }
    ),
)
