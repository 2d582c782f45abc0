"""Where a GPU stood idle, why, and what a step's time went to."""
