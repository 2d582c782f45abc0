"""A package whose module is run by -m."""
