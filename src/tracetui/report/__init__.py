"""Results become text, Markdown and JSON, for people and scripts."""
