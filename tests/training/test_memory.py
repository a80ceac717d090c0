import platform
import subprocess
import sys

import pytest

# How many pages the second half of 20 equal batches faults in, each of 64 blocks of 1 MiB and a little more.
BATCHES = """
import resource
import torch
from tsdr.training.memory import keep_freed_memory
keep_freed_memory()
for batch in range(20):
    if batch == 10:
        before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    blocks = [torch.ones(2**18 + 1000 * block) for block in range(64)]
    del blocks
print(resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before)
"""


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="only glibc is told")
def test_a_batch_takes_the_pages_that_the_one_before_it_freed() -> None:
    """Handed back after each batch, ten of them fault in 150,000 pages and more."""
    found = subprocess.run([sys.executable, "-c", BATCHES], capture_output=True, text=True, check=True)
    assert int(found.stdout) < 10_000
