"""Profiles models with ONNX Runtime's profiler: results, the difference of two sides, and the machine's peaks."""
