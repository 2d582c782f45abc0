"""A replay of the recording: what would have happened if something had taken less time."""
