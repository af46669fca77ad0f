"""Stores what ONNX Runtime makes of a model in a file, and compares with it later, without timing."""
