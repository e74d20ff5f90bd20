"""``python -m twinfer``, and the command ``twinfer``."""

import os
import sys


def run() -> int:
    """Run the command line; returns the exit status. After Ctrl-C the process ends here, whatever still computes."""
    try:
        from twinfer.command_line.main import main

        status = main()
    except KeyboardInterrupt:  # during the imports
        sys.stderr.write("twinfer: interrupted\n")
        status = 130
    if status == 130:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(status)
    return status


if __name__ == "__main__":
    sys.exit(run())
