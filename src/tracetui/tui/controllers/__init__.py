"""What the keys of the trace screen do, a subject each: objects with a state of their own on one `Host`."""
