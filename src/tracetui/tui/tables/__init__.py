"""Tables of any length: what a table holds (`model`), and the widget that draws it (`view`)."""
