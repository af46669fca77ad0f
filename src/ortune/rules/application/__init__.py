"""Rules on how an application uses ONNX Runtime: APP."""
