"""One report of a model on a target: what takes the time, the RAM and the flash, and what to change."""
