"""Computes tables and findings from a Trace: pure functions over arrays, numpy only."""
