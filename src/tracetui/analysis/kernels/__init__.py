"""Decodes the names of GPU kernels: one module per family of names.

Use `tracetui.analysis.kernel_names`, which asks each family in turn.
"""
