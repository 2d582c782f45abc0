"""sys.settrace and threading.settrace, as a debugger has them, and threading.excepthook."""

import os
import sys
import threading

import torch

STEPS = int(os.environ.get("STEPS", "30"))
torch.manual_seed(1)
model = torch.nn.Linear(8, 8)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)


def train_step():
    optimizer.zero_grad()
    loss = model(torch.randn(4, 8)).square().mean()
    loss.backward()
    optimizer.step()
    return loss.item()


def trace(frame, event, arg):
    if frame.f_code.co_filename == __file__:
        calls.append(frame.f_code.co_name)


def fail():
    train_step()
    raise ValueError("in the thread")


calls = []
sys.settrace(trace)
threading.settrace(trace)
threading.excepthook = lambda given: print("hook", given.exc_type.__name__, given.exc_value)
for step in range(STEPS):
    train_step()
thread = threading.Thread(target=fail)
thread.start()
thread.join()
sys.settrace(None)
print("trained", calls[:3], len(calls))
