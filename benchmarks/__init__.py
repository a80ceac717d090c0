"""Claims about speed and memory, measured: each module prints ratios taken in one run."""
