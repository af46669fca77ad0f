"""Traces: what a runtime recorded of its runs, read once into typed columns, and small questions to them."""
