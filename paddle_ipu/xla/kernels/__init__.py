"""The custom calls of inference programs on CPUs: Python here, C++ in the folders.

``onednn/`` calls the oneDNN that Paddle's wheel carries, ``simd/`` and ``memory/`` have kernels of
our own, ``threads/`` shares the work of all among XLA's threads; ``kernels.cc`` is what XLA enters.
"""
