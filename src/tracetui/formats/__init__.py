"""Reads trace files: opens and decompresses them, and turns the formats of traces into columns of events."""
