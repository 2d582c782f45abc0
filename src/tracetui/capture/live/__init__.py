"""A trace of a process that is running: what can be asked, asking it, and what comes back."""
