"""The recorder: one file that runs in a user's program, and the doors by which it gets there."""
