"""From a framework's model to ONNX: what a source is, its axes, its outputs beside those of the ONNX model."""
