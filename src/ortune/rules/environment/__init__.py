"""Rules on the machine and its runtimes: ENV."""
