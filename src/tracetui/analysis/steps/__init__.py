"""Which stretch of a trace is meant: its steps, and the scope of a question."""
