"""Needs a module that is not there."""

import torch
import no_such_module_anywhere

print(torch, no_such_module_anywhere)
