"""What all targets in a browser share: the browser, onnxruntime-web, the server between them and the page."""
