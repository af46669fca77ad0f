"""Traces: profiles of a runtime, read once into typed columns, and small queries on them."""
