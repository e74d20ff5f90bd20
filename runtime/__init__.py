"""Graph, operators, plan and interpreter: everything both ways of running share."""

import time

#: When this process has begun to import twinfer, in ns.
BEGUN = time.time_ns()
