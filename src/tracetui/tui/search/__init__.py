"""Search: what a query means (`query`), and walking through its matches (`walk`)."""
