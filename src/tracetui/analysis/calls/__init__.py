"""Who called what: averages, sums, launches, flows, graphs, chains of callers."""
