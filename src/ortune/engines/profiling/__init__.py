"""A side under ONNX Runtime's profiler: taking it, telling it, the difference of two, and the machine's peaks."""
