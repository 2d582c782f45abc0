"""Asks for work as Kineto does, without PyTorch: python kineto_client.py SECONDS [INTERVAL] [SWITCHES]

Prints a line a tenth of a second, and "done", as soon as the file STOP of the environment is there; ends
with EXIT from it. Switches: "empty" (the first recording has no event), "always-empty", "drop" (the first
request is dropped), "late" (so it is, with its file opened), "never" (none is answered), "slow" (its file is
empty for three seconds), "unfinished" (its file keeps the name of an unfinished one), "die" (ends while it
records), "busy" (says that it records already), "fork" (has a child, as a DataLoader's worker, with its
socket), "exec" (becomes another program when it is told to record), "close" (closes its socket then).
"""

import contextlib
import json
import os
import select
import socket
import struct
import sys
import threading
import time
import uuid

END = time.monotonic() + float(sys.argv[1])
STOP = os.environ.get("STOP", "")
INTERVAL = float(sys.argv[2]) if len(sys.argv) > 2 else 0.05
SWITCHES = sys.argv[3:]
ANSWER_SECONDS = 3.0
"""Kineto waits for 0.09 s, which is little on a busy machine."""
FOLDER = os.environ.get("KINETO_IPC_SOCKET_DIR")
NAME = f"dynoconfigclient{uuid.uuid4()}"
DAEMON = f"{FOLDER}/dynolog" if FOLDER else b"\0dynolog\0"


def event(name, ts, dur):
    return {"ph": "X", "cat": "cpu_op", "name": name, "pid": os.getpid(), "tid": 1, "ts": ts, "dur": dur}


def named(path):
    root, ext = os.path.splitext(path)
    return f"{root}_{os.getpid()}{ext}"


def write(path, start, seconds, empty):
    steps = max(1, int(seconds / 0.02))
    events = [event("Optimizer.step#SGD.step", (start + i * 0.02) * 1e6, 9000) for i in range(steps)]
    events = [] if empty else [event("aten::mm", start * 1e6, 5000), *events]
    events.append(
        {"ph": "M", "name": "process_name", "pid": os.getpid(), "ts": 0, "args": {"name": "python"}}
    )
    path = named(path)
    with open(path + ".tmp", "w") as file:
        time.sleep(3 if "slow" in SWITCHES else 0)
        json.dump({"schemaVersion": 1, "traceEvents": events}, file)
    if "unfinished" in SWITCHES:
        return
    os.rename(path + ".tmp", path)


class Client:
    def __init__(self):
        self.recording, self.asked = False, 0
        self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self.socket.bind(f"{FOLDER}/{NAME}" if FOLDER else f"\0{NAME}".encode())

    def send(self, kind, body):
        try:
            self.socket.sendto(struct.pack("=Q32s", len(body), kind) + body, socket.MSG_DONTWAIT, DAEMON)
        except OSError:
            return None
        if not select.select([self.socket], [], [], ANSWER_SECONDS)[0]:
            return None
        message = self.socket.recv(65536)
        size, kind = struct.unpack_from("=Q32s", message)
        assert len(message) == 40 + size, message
        return message[40:].decode("latin-1") if kind.rstrip(b"\0") == b"req" else ""

    def ask(self):
        self.send(b"ctxt", struct.pack("=iiq", 0, os.getpid(), 0))
        while time.monotonic() < END:
            state = 1 if self.recording or "busy" in SWITCHES else 3
            text = self.send(b"req", struct.pack("=iiqii", state, 2, 0, os.getpid(), os.getppid()))
            if text and not self.recording:
                self.asked += 1
                wanted = dict(line.split("=", 1) for line in text.splitlines())
                if "late" in SWITCHES and self.asked == 1:
                    open(named(wanted["ACTIVITIES_LOG_FILE"]) + ".tmp", "w").close()
                elif "never" not in SWITCHES and not ("drop" in SWITCHES and self.asked == 1):
                    threading.Thread(target=self.record, args=(wanted,), daemon=True).start()
            time.sleep(INTERVAL)

    def record(self, wanted):
        self.recording = True
        if "exec" in SWITCHES:
            os.execv("/bin/sleep", ["sleep", "600"])
        if "close" in SWITCHES:
            self.socket.close()
            return
        start = float(wanted.get("PROFILE_START_TIME", 0)) / 1000 or time.time()
        seconds = float(wanted.get("ACTIVITIES_DURATION_MSECS", 100)) / 1000
        time.sleep(max(0.0, start - time.time()))
        if "die" in SWITCHES:
            os._exit(9)
        time.sleep(seconds)
        empty = "always-empty" in SWITCHES or ("empty" in SWITCHES and self.asked == 1)
        with contextlib.suppress(OSError):  # whoever asked has gone, with the folder
            write(wanted["ACTIVITIES_LOG_FILE"], start, seconds, empty)
        self.recording = False


client = Client()
if "fork" in SWITCHES and (child := os.fork()) == 0:
    while os.getppid() != 1 and time.monotonic() < END:
        time.sleep(0.1)
    os._exit(0)
threading.Thread(target=client.ask, daemon=True).start()
if "fork" in SWITCHES:
    print("child", child, flush=True)
n = 0
while time.monotonic() < END and not os.path.exists(STOP):
    print("step", n := n + 1, flush=True)
    time.sleep(0.1)
print("done")
sys.exit(int(os.environ.get("EXIT", "0")))
