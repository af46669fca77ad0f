"""Settings of the CPU execution provider and its process."""
