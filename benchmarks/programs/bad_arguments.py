"""argparse ends it with exit code 2 and its usage, which has the script's name."""

import argparse

import torch

parser = argparse.ArgumentParser()
parser.add_argument("--size", type=int, required=True)
print(torch.ones(parser.parse_args().size))
