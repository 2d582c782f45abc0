"""The ranks of one job on one clock: collectives matched over ranks, who came last, and why. Numbers only."""
