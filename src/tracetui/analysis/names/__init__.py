"""Decodes the names of GPU kernels: one module per family of names.

Use `tracetui.analysis.names.kernel_names`, which asks each family in turn.
"""
