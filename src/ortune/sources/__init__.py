"""Code for a framework's own interpreter: opens a source model, exports it, and computes its outputs.

The code is sent to the interpreter as files, like the worker, and uses the worker's messages. It imports only the
worker's modules, numpy, and the framework of its source.
"""
