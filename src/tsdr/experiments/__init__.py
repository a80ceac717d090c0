"""The paper's experiments as grids of runs, on the cores of this machine or on a cluster."""
