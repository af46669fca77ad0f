"""Hosts of a Ray cluster: joining it, and the processes that run there."""
