"""``ortune lock app.workload``: detects changes in how an application uses ONNX Runtime after an update."""
