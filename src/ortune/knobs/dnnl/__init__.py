"""Settings of the oneDNN execution provider, and of builds with OpenMP."""
