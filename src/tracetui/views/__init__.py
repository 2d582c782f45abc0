"""One answer a module: from results to a table or a text, for the screen, as text, Markdown, JSON and CSV."""
