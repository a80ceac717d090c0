import subprocess
import sys

CHILD = "from tsdr.processes import peak_memory_mib as peak; print(peak()); own = b'x' * 2**28; print(peak())"
PARENT = f"""
import subprocess, sys
held = b"x" * 2**30
print(subprocess.run([sys.executable, "-c", {CHILD!r}], capture_output=True, text=True, check=True).stdout)
"""


def test_the_peak_memory_of_a_process_is_its_own() -> None:
    """A worker that a large process has started must not be said to be large."""
    found = subprocess.run([sys.executable, "-c", PARENT], capture_output=True, text=True, check=True).stdout
    before, after = map(float, found.split())
    assert before < 800, "the parent's GiB is counted"
    assert 250 < after - before < 300, "the child's own 256 MiB"
