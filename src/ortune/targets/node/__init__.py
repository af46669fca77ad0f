"""Targets in Node.js, which use onnxruntime-node."""
