"""A Trace becomes tables and findings: pure functions over arrays, numpy only."""
