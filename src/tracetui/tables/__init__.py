"""Tables: each defined once as columns, and written for the screen, as text, Markdown, JSON and CSV."""
