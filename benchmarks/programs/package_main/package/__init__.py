"""A package that is run by -m, by its __main__."""

import sys

ARGV = sys.argv[:]
