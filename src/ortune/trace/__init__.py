"""Traces: profiles of a runtime, which are read once into typed columns, and small queries on these columns."""
