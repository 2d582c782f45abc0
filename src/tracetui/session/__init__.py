"""What is open: recordings, selection, search, marks, history. No Textual, no terminal."""
