"""``ortune lock app.workload``: has an update changed how an application uses ONNX Runtime?"""
