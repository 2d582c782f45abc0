"""What a GPU kernel's name says: one module per family of names.

Use `tracetui.analysis.kernel_names`, which asks each family in turn.
"""
