"""Analysis of a model's graph: values, constants, attributes, randomness, shapes, and ONNX Runtime's own fusions."""
