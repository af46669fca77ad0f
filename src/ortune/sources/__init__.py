"""Code for a framework's own interpreter: opens a source model, exports it, and computes its outputs.

It is sent there as files, like the worker, and uses the worker's messages; of the package it imports only the worker's
modules. It imports numpy, and the framework of its source.
"""
