"""Settings of the OpenVINO execution provider."""
