"""What a graph means, known once: values, constants, attributes, randomness, and what ONNX Runtime fuses by itself."""
