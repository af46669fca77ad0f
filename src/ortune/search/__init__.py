"""Scheduling of blocks and evaluation of evidence, independent of ONNX Runtime."""
