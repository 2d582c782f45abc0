"""A plugin for tracetui: a rule, a family of kernels, a format and a view."""
