"""``python3 -m twinfer.aot.board.rtl CARD PROGRAM`` runs a program, such as a self-test, on the core of a card."""

import os
import sys
from pathlib import Path

from twinfer.aot.build.targets import find

if __name__ == "__main__":
    name, program = sys.argv[1:]
    card = find(name)
    words = card.architecture.runner(card).words(Path(program))
    os.execv(words[0], words)
