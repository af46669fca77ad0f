"""Scheduling of blocks and reading of evidence; never sees ONNX Runtime."""
