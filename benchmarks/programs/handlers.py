"""Handlers of its own for signals, exit, exceptions and crashes."""

import atexit
import faulthandler
import os
import signal
import sys

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


def hook(kind, error, trace):
    frames = []
    while trace:
        frames.append(os.path.basename(trace.tb_frame.f_code.co_filename))
        trace = trace.tb_next
    print("hook", kind.__name__, error, frames)


print(faulthandler.is_enabled(), sys.excepthook is sys.__excepthook__)
print([signal.getsignal(s) for s in (signal.SIGTERM, signal.SIGHUP, signal.SIGPIPE, signal.SIGCHLD)])
print(signal.getsignal(signal.SIGINT) is signal.default_int_handler)
sys.excepthook = hook
faulthandler.enable(open("crash.txt", "w"))
for number in (signal.SIGINT, signal.SIGTERM, signal.SIGUSR1, signal.SIGALRM):
    signal.signal(number, lambda number, frame: print("signal", number))
atexit.register(print, "cleanup: atexit")
for step in range(STEPS):
    train_step()
for number in (signal.SIGINT, signal.SIGTERM, signal.SIGUSR1, signal.SIGALRM):
    os.kill(os.getpid(), number)
print("trained")
raise ValueError("at its end")
