"""Runtimes: interpreters with an ONNX Runtime build in them."""
