"""Conversion of a framework's model to ONNX: kinds of sources, dynamic axes, and the comparison of outputs."""
