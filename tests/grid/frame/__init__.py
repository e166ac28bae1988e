"""The frame of the fault grid: real processes, faults, and the oracle that judges every cell."""
