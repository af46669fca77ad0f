"""What runs in a framework's own interpreter: opens a source model, exports it, and computes its outputs.

Sent there as files, like the worker, whose messages it speaks; of the package it has the worker's ``protocol`` and
``values`` alone. It imports numpy, and the framework that its source needs.
"""
