"""Two recordings, or two sets of steps of one, become a difference. Pure functions over arrays."""
