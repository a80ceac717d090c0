"""What becomes of freed memory while a model trains."""

import ctypes

# Of glibc's malloc.h. 32 MiB is where its own threshold, which moves with what a program frees, would end.
M_TRIM_THRESHOLD, M_MMAP_THRESHOLD = -1, -3
NEVER, AT_MOST = 2**31 - 1, 32 * 2**20


def keep_freed_memory() -> None:
    """Have the C library keep what a batch frees for the next one, for as long as the process lives.

    Left alone, glibc hands it back to the system after a batch or does not, by how blocks happen to lie in this
    process. Where it does, every page is cleared anew for the next batch, and training is slower by a fifth or more.
    Other C libraries are left as they are.
    """
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except (AttributeError, OSError, TypeError):
        return
    mallopt(M_TRIM_THRESHOLD, NEVER)
    mallopt(M_MMAP_THRESHOLD, AT_MOST)
