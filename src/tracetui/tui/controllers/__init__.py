"""What the keys of the trace screen do, by subject: moving, walking links and gaps, asking, panes, ..."""
