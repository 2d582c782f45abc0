"""Works out the difference between two recordings, or two sets of steps of one. Pure functions over
arrays."""
