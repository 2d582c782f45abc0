"""What bytes are: files, pipes and encodings, and the formats of traces, which become columns of events."""
