"""Settings of the QNN execution provider."""
