"""Traces of running processes: finding those that can be asked, asking them, and fetching the files."""
