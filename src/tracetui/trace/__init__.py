"""A file becomes a Trace: reading, repairing and linking Chrome traces. numpy and JSON libraries only."""
