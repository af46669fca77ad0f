"""Append-only storage of everything measured."""
