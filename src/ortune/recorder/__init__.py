"""Recorder: files that run in a user's program, ways to load them there, and readers of their logs."""
