"""From a framework's model to ONNX: kinds of sources, their axes, and the comparison of outputs with the ONNX model."""
