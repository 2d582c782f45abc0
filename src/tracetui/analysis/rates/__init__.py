"""What work there was to do: FLOPs, bytes, peaks, occupancy, and how near to the peak it ran."""
