"""An estimate of the cycles of an inference: instructions counted in QEMU, times a public model of the pipeline.

It is no measurement. The core's caches, its data's wait states and the times at which operands arrive from the run
before are not in it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import fsum

from twinfer.aot.build.architecture import Pipeline
from twinfer.aot.build.firmware import Firmware
from twinfer.aot.build.mca import Llvm, Straight, need_llvm, straights
from twinfer.aot.build.runner import PATIENCE, ByAddress, runner_of
from twinfer.aot.build.targets import Card
from twinfer.runtime.errors import ToolError
from twinfer.runtime.graph import Array


@dataclass(frozen=True)
class Estimate:
    """Estimated ``cycles`` of one inference, of ``instructions`` that were counted.

    ``flash_cycles`` of them wait for flash, ``branch_cycles`` refill the pipeline. ``unmodelled`` instructions are not
    in LLVM's model and take 1 cycle each. ``source`` says in words where the figures come from.
    """

    cycles: int
    instructions: int
    flash_cycles: int
    branch_cycles: int
    unmodelled: int
    source: str

    @property
    def cycles_per_instruction(self) -> float:
        return self.cycles / self.instructions

    @property
    def unmodelled_share(self) -> float:
        return self.unmodelled / self.instructions


def modelled(card: Card) -> Pipeline:
    """The pipeline of a card's core; ToolError if no public model of it is known."""
    pipeline = card.architecture.pipeline(card)
    if pipeline is None:
        raise ToolError(f"LLVM has no scheduling model of the core of {card.name}")
    return pipeline


def estimate(firmware: Firmware, inputs: Sequence[Array], *, patience: float = PATIENCE) -> Estimate:
    """An estimate for one inference of the program's first model; the same every time.

    ToolError as ``run_jobs``, where nothing counts single instructions, if LLVM is missing or too old, or if no model
    of the core is known.
    """
    pipeline = modelled(firmware.card)
    llvm = need_llvm(pipeline.since)
    executed = runner_of(firmware.card).counted_by_address(firmware, inputs, patience)
    return estimated(firmware, executed, pipeline, llvm)


def estimated(firmware: Firmware, executed: ByAddress, pipeline: Pipeline, llvm: Llvm) -> Estimate:
    """The estimate for what was executed."""
    try:
        runs = [*straights(llvm.listing(firmware.elf, pipeline), executed)]
    except KeyError as error:
        raise ToolError(f"{firmware.elf}: what was executed at {error.args[0]:#x} is not in the listing") from error
    costs, lacking = llvm.costs([run.instructions for run in runs], pipeline)
    return added_up(runs, costs, lacking, pipeline, firmware.card, llvm.version)


def added_up(
    runs: Sequence[Straight],
    costs: Sequence[Sequence[float]],
    lacking: frozenset[str],
    pipeline: Pipeline,
    card: Card,
    version: int,
) -> Estimate:
    """The sum over all runs of what they take, their branches, and their waits for flash."""
    states, fetch = card.flash_wait_states or 0, card.flash_fetch_bytes or 1
    straight, branches, flash = [], [], []
    for run, gaps in zip(runs, costs, strict=True):
        taken = run.taken * pipeline.branch(run.instructions[-1].mnemonic)
        cycles = fsum(_at_least(run, gaps, pipeline))
        straight.append(run.count * cycles)
        branches.append(taken)
        flash.append(run.count * waits(run.nbytes, cycles, states, fetch) + run.taken * states)
    return Estimate(
        cycles=round(fsum((*straight, *branches, *flash))),
        instructions=sum(run.count * len(run.instructions) for run in runs),
        flash_cycles=round(fsum(flash)),
        branch_cycles=sum(branches),
        unmodelled=sum(run.count * sum(each.mnemonic in lacking for each in run.instructions) for run in runs),
        source=f"llvm-mca {version}: {pipeline.source}; an estimate, not a measurement",
    )


def waits(nbytes: int, cycles: float, wait_states: int, fetch_bytes: int) -> float:
    """The cycles that straight code waits for flash, beyond the ``cycles`` of its execution.

    A fetch brings ``fetch_bytes`` in 1 + ``wait_states`` cycles, while what was fetched before is executed; so straight
    code waits only where its fetches take longer than its execution. There is no cache.
    """
    if not wait_states:
        return 0.0
    return max(0.0, nbytes / fetch_bytes * (1 + wait_states) - cycles)


def _at_least(run: Straight, gaps: Sequence[float], pipeline: Pipeline) -> list[float]:
    """The cycles of every instruction by LLVM's model, but not below the core's floor."""
    following = [*(each.mnemonic for each in run.instructions[1:]), ""]
    triples = zip(run.instructions, following, gaps, strict=True)
    return [max(gap, pipeline.floor(each.mnemonic, each.operands, after)) for each, after, gap in triples]
