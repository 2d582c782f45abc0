"""The widget that shows a table of any length (`view`), and how its lines are drawn and sent."""
