"""Code shared by all targets in a browser: the browser, onnxruntime-web, the server, and the page."""
