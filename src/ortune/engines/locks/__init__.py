"""Lock files: facts about how ONNX Runtime optimises and runs a model, for comparison with later versions."""
