"""One answer a module: from facts to a table or a text, for the screen, as text, Markdown, JSON and CSV."""
