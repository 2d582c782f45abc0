"""tracetui: a terminal trace viewer for PyTorch, with live capture."""

__version__ = "0.1.0"
