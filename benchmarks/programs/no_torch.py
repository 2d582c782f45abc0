"""Never imports PyTorch."""

import sys

print("no training here")
print("and nothing is wrong", file=sys.stderr)
