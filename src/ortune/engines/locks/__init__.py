"""What ONNX Runtime makes of a model, kept in a file and compared with it later, without a clock."""
