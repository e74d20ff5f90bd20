"""Looks for differences between our engines and the public ones on random models.

``python -m twinfer.bench.fuzz --seconds N [--seed S] [--op NAME] [--out FOLDER]``

Every model runs in numpy, in the interpreter for all targets and instruction-set levels, as compiled C, and in TFLM or,
where TFLM refuses it, in LiteRT's reference kernels. A model in which two of them differ is saved with its inputs. The
same seed gives the same models; how many depends on the time. ``--first N --models 1`` tries one of them again.
"""

from __future__ import annotations

import argparse
import re
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path

import numpy as np
from rich.console import Console

from twinfer.bench.fuzz.engines import QUICK, USUAL, Engines, Verdict
from twinfer.bench.fuzz.graphs import random_graph
from twinfer.bench.fuzz.model import JUDGES, Model, runs
from twinfer.bench.fuzz.mutate import random_trial
from twinfer.runtime.registry import operators
from twinfer.runtime.write.tflite import write

#: Every so many models is a graph, the others are nodes of one operator after the other.
GRAPH_EVERY = 4

#: Models that are compiled together, and how many such batches are compiled quickly before one as users do.
BATCH, USUAL_EVERY = 48, 6


def random_model(seed: int, number: int, chosen: Sequence[str], refused: Counter[str]) -> Model:
    """The model of that number; ``chosen`` operators come in turn. ``refused`` counts changes that were not taken."""
    rng, graphs = np.random.default_rng([seed, number]), number // GRAPH_EVERY
    if number % GRAPH_EVERY == GRAPH_EVERY - 1:
        return random_graph(rng, f"graph_{number}", [chosen[graphs % len(chosen)], *operators()], refused)
    op = chosen[(number - graphs) % len(chosen)]
    trial = random_trial(rng, op, refused)
    name, graph = f"{op.removeprefix('CUSTOM:').lower()}_{number}", trial.graph
    return Model(name, graph, runs(rng, graph, trial.given), JUDGES[trial.oracle], trial.tolerance)


def save(verdict: Verdict, folder: Path) -> None:
    """Writes NAME.tflite, and NAME.npz with the inputs of every run."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / re.sub(r"\W", "_", verdict.model.name)
    path.with_suffix(".tflite").write_bytes(write(verdict.model.graph))
    inputs = {f"run{r}_{i}": value for r, run in enumerate(verdict.model.runs) for i, value in enumerate(run)}
    np.savez(path.with_suffix(".npz"), **inputs)  # type: ignore[arg-type]


def main(arguments: Sequence[str] | None = None) -> int:
    """1 if a difference was found, else 0."""
    summary, _, rest = (__doc__ or "").partition("\n\n")
    parser = argparse.ArgumentParser(prog="python -m twinfer.bench.fuzz", description=summary, epilog=rest)
    parser.add_argument("--seconds", type=float, default=60, metavar="N", help="how long to look")
    parser.add_argument("--seed", type=int, default=0, metavar="S", help="other models for every seed")
    parser.add_argument("--op", choices=sorted(operators()), default=None, metavar="NAME", help="only this operator")
    parser.add_argument("--first", type=int, default=0, metavar="N", help="the number of the first model")
    parser.add_argument("--models", type=int, default=sys.maxsize, metavar="N", help="stop after so many models")
    parser.add_argument("--out", type=Path, default=Path("build/fuzz"), metavar="FOLDER", help="where findings go")
    options = parser.parse_args(arguments)
    chosen, console = [options.op] if options.op else list(operators()), Console()
    refused, excuses, ran = Counter[str](), Counter[str](), Counter[str]()
    started, number, found = time.monotonic(), options.first, 0
    with tempfile.TemporaryDirectory(prefix="twinfer-fuzz-") as cache, closing(Engines(cache)) as engines:
        while time.monotonic() < started + options.seconds and (tried := number - options.first) < options.models:
            numbers = range(number, number + min(BATCH, options.models - tried))
            models = [random_model(options.seed, n, chosen, refused) for n in numbers]
            level = USUAL if tried // BATCH % USUAL_EVERY == USUAL_EVERY - 1 else QUICK
            for n, verdict in zip(numbers, engines.compare(models, level), strict=True):
                excuses.update(filter(None, [verdict.excuse]))
                ran.update(node.op for node in verdict.model.graph.nodes if not verdict.refusal)
                for engine, text in verdict.findings.items():
                    console.print(f"--seed {options.seed} --first {n}, {verdict.model.name}: {engine}: {text}")
                if verdict.findings:
                    found += 1
                    save(verdict, options.out)
            number = numbers.stop
    seconds, count = time.monotonic() - started, number - options.first
    console.print(f"{count} models in {seconds:.0f} s, {found} differ; {refused.total()} changes were refused")
    if missing := [op for op in chosen if not ran[op]]:
        console.print(f"not reached: {', '.join(missing)}")
    for why, times in excuses.most_common():
        console.print(f"excused {times} times: {why}")
    return int(bool(found))


if __name__ == "__main__":
    sys.exit(main())
