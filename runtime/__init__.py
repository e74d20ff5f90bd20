import time

#: When this process has begun to import twinfer, in ns.
BEGUN = time.time_ns()
