"""Profiles of sides by ONNX Runtime's profiler: their results, the difference of two, and the machine's peaks."""
