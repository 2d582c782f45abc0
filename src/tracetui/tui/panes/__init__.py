"""The panes below the timeline: details, averages, gaps, steps, findings."""
