"""Rules on WebGPU and browsers: WEB."""
