"""``python -m twinfer``."""

import sys

from twinfer.command_line.main import main

if __name__ == "__main__":
    sys.exit(main())
