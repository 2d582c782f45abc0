"""What a process that is asked by `inject` runs: this text, after a line that gives JOB. Never imported.

It records in a thread of its own, which the program's own threads do not see, and never raises. When it ends
it leaves nothing in the process; if nobody waits any longer for what it does, it deletes the folder.
"""

# ruff: noqa: F821

import _thread
from typing import Any

JOB: dict[str, Any]


def record() -> None:
    import atexit
    import os
    import shutil
    import sys
    import time

    folder = JOB["folder"]
    leaving: list[bool] = []
    busy = _thread.allocate_lock()

    def leave() -> None:
        """The program is ending. It must not while the profiler is at work in this thread, nor wait for
        long."""
        leaving.append(True)
        busy.acquire(timeout=JOB["leave"])

    def wanted() -> bool:
        """Whether whoever asked still waits: they delete this file, or are gone."""
        asker = f"/proc/{JOB['asker']}"
        return not leaving and os.path.exists(os.path.join(folder, "wanted")) and os.path.exists(asker)

    def tell(name: str, text: str = "") -> None:
        part = os.path.join(folder, f"{name}.part")
        with open(part, "w", encoding="utf-8", errors="replace") as file:
            file.write(text)
        os.replace(part, os.path.join(folder, name))

    def sleep_until(end: float) -> None:
        while wanted() and (left := end - time.monotonic()) > 0:
            time.sleep(min(left, 0.1))

    def work() -> None:
        if time.time() > JOB["late"] or not wanted():
            return
        tell("began")
        torch: Any = sys.modules.get("torch")
        if not hasattr(torch, "profiler"):
            tell("error", "it has not imported PyTorch")
            return
        # Not torch.profiler.profile: that imports the compiler, which takes seconds and stays. And no device
        # that the program does not use: its context would stay, too.
        devices = [name for name in ("cuda", "xpu") if getattr(torch, name).is_initialized()]
        profile = torch.autograd.profiler.profile(
            use_device=devices[0] if devices else None,
            experimental_config=torch._C._profiler._ExperimentalConfig(profile_all_threads=True),
            **JOB["options"],
        )
        sleep_until(time.monotonic() + JOB["start_in"])
        if getattr(torch.autograd.profiler, "_is_profiler_enabled", False):
            tell("error", "it is already being profiled")
            return
        with profile:
            for option, chosen in JOB["options"].items():
                torch.autograd._add_metadata_json(option, "1" if chosen else "0")
            ranks = torch.distributed
            if ranks.is_available() and ranks.is_initialized():
                rank, size, backend = ranks.get_rank(), ranks.get_world_size(), ranks.get_backend()
                info = f'{{"backend": "{backend}", "rank": {rank}, "world_size": {size}}}'
                torch.autograd._add_metadata_json("distributedInfo", info)
            tell("recording")
            sleep_until(time.monotonic() + JOB["seconds"])
        if wanted():
            tell("writing")
            part = os.path.join(folder, "part.json")
            profile.export_chrome_trace(part)
            os.replace(part, os.path.join(folder, "trace.json"))

    try:
        with busy:
            atexit.register(leave)
            try:
                work()
            except Exception as error:
                tell("error", f"{type(error).__name__}: {error}")
            finally:
                atexit.unregister(leave)
        if wanted():
            tell("ended")
            sleep_until(time.monotonic() + 600)  # while the trace is being copied
        shutil.rmtree(folder, ignore_errors=True)
    except BaseException:  # nobody is there to be told
        pass


_thread.start_new_thread(record, ())
