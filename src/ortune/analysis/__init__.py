"""What a graph says without running: shapes, work, where optimised nodes come from, the nature of its outputs."""
