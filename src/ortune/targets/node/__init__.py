"""Models in Node.js, by onnxruntime-node."""
