"""Explains the names in a trace in two plain sentences each: what the thing does, and what it means in a
trace.

Sources: PyTorch's and Kineto's code and documentation, and the CUDA toolkit's.
"""
