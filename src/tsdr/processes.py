"""What a process says of itself and does for those that it belongs to."""

import multiprocessing
import os
import re
import resource
import sys
import threading
import time
from pathlib import Path


def end_with_parent() -> None:
    """End this process when the one that started it ends, however it does: nobody else would."""
    parent = multiprocessing.parent_process()
    assert parent is not None

    def watch() -> None:
        while os.getppid() == parent.pid:
            time.sleep(0.2)
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()


def peak_memory_mib() -> float:
    """The most memory that this process has held, in this run and those before it.

    On Linux as the kernel counts it for the process: what getrusage says includes what the parent held as it forked.
    """
    status = Path("/proc/self/status")
    found = re.search(r"VmHWM:\s+(\d+) kB", status.read_text()) if status.exists() else None
    if found:
        return int(found[1]) / 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / (2**20 if sys.platform == "darwin" else 2**10)
