"""The trial process: standard library, numpy and onnxruntime only, Python 3.8 syntax."""
