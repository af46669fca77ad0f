"""Shapes and types of values: by onnx's inference, by a walk over symbols, and from one node up."""
