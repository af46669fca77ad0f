"""Settings of the execution provider TensorRT for RTX."""
