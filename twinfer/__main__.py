"""``python -m twinfer``."""

import sys

from twinfer.cli import main

if __name__ == "__main__":
    sys.exit(main())
