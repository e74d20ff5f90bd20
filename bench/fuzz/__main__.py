"""Looks for differences between our engines and the public ones on random models.

``python -m twinfer.bench.fuzz --seconds N [--seed S] [--op NAME] [--out FOLDER]``

Every model runs in numpy, in the interpreter for all targets and instruction-set levels, as compiled C, and in TFLM or,
where TFLM refuses it, in LiteRT's reference kernels. A model in which two of them differ is shrunk and saved with its
inputs and a test that fails. The same seed gives the same models; how many depends on the time.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from rich.console import Console
from rich.progress import Progress

from twinfer.bench.fuzz.run import Campaign
from twinfer.runtime.registry import operators


def _options(arguments: Sequence[str] | None) -> argparse.Namespace:
    summary, _, rest = (__doc__ or "").partition("\n\n")
    parser = argparse.ArgumentParser(prog="python -m twinfer.bench.fuzz", description=summary, epilog=rest)
    parser.add_argument("--seconds", type=float, default=60, metavar="N", help="how long to look")
    parser.add_argument("--seed", type=int, default=0, metavar="S", help="other models for every seed")
    parser.add_argument("--op", choices=sorted(operators()), default=None, metavar="NAME", help="only this operator")
    parser.add_argument("--models", type=int, default=None, metavar="N", help="stop after so many models")
    parser.add_argument("--out", type=Path, default=Path("build/fuzz"), metavar="FOLDER", help="where findings go")
    return parser.parse_args(arguments)


def main(arguments: Sequence[str] | None = None) -> int:
    """1 if a difference was found, else 0."""
    options = _options(arguments)
    chosen = [options.op] if options.op else list(operators())
    with Progress(console=Console(stderr=True)) as progress:
        task = progress.add_task("models", total=options.seconds)

        def tell(seconds: float, text: str) -> None:
            progress.update(task, completed=min(seconds, options.seconds), description=text)

        campaign = Campaign(options.seed, chosen, options.out, tell)
        campaign.run(options.seconds, options.models)
    Console().print(campaign.tally.table(), campaign.tally.summary(), sep="\n")
    return int(bool(campaign.findings))


if __name__ == "__main__":
    sys.exit(main())
