"""GPUs of any maker, by DirectML."""

from ortune.providers.provider import Bindings, Provider

PROVIDER = Provider(
    name="DmlExecutionProvider",
    target="directml",
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
    bindings=Bindings(by_name="DML", java_device=("addDirectML", "device_id"), node="dml"),
    hardware="gpu",
    queues=True,
    float16=True,
)
