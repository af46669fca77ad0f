"""Settings of the TensorRT execution provider."""
