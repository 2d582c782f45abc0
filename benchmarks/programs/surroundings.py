"""What a program can see of how it is run."""

import os
import signal
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


main = sys.modules["__main__"]
print(sys.argv, __file__, __name__, __spec__, __package__, __doc__, type(__loader__).__name__)
print(sys.path[0], main.__dict__ is globals(), type(__builtins__).__name__, "__cached__" in globals())
print(sorted(name for name in globals() if name.startswith("__")), main.__file__ == __file__)
print(sys.flags, sys.warnoptions, sys._xoptions, sys.orig_argv[0] == sys.executable)
print([stream.isatty() for stream in (sys.stdin, sys.stdout, sys.stderr)], sys.stdout.line_buffering)
print(sys.stdout.write_through, sys.stdout.encoding, sys.stderr.errors, sys.stdin.name, sys.stdout.name)
print(signal.getsignal(signal.SIGINT) is signal.default_int_handler, signal.getsignal(signal.SIGTERM))
print(signal.pthread_sigmask(signal.SIG_BLOCK, []), threading.current_thread().name)
print(sys.excepthook is sys.__excepthook__, sys.gettrace(), sys.getprofile(), sys.getrecursionlimit())
print(sys.dont_write_bytecode, sys.executable, os.getcwd(), os.umask(0o22), sys.displayhook.__name__)
print(sys.exc_info(), sys.meta_path[0])
print("\n".join(f"{key}={value}" for key, value in sorted(os.environ.items()) if key not in ("_", "STEPS")))
for step in range(STEPS):
    train_step()
print("trained", torch.get_num_threads(), torch.is_grad_enabled(), torch.get_default_dtype())
