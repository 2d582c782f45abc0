"""What the names in a trace mean, in two plain sentences each: what it does, and what that means in a trace.

Sources: PyTorch's and Kineto's code and documentation, and the CUDA toolkit's.
"""
