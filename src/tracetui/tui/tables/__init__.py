"""The widget that shows a table of any length (`view`), and the code that draws its lines and sends them."""
