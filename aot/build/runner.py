"""Runs programs for a card: jobs in, outputs and counts out. A ``Runner`` runs them: QEMU, or a simulated core."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

from twinfer.aot.build.firmware import Firmware
from twinfer.aot.build.targets import Card
from twinfer.runtime.errors import InvalidArgumentError, ToolError
from twinfer.runtime.graph import Array

#: The longest that a program may take, in seconds; QEMU executes some 300 million instructions per second.
PATIENCE = 300.0


@dataclass(frozen=True)
class Job:
    """One inference: the model of the program, its inputs, from a fresh state or going on, whole or step by step.

    ``paint`` measures the stack of the whole run instead of counting it.
    """

    inputs: Sequence[Array]
    model: int = 0
    fresh: bool = True
    by_step: bool = False
    paint: bool = False


@dataclass(frozen=True)
class Result:
    """A job's outputs, and the instructions of the run or, step by step, of every step; none if not counted.

    ``cycles``, too, where the machine has any, as a simulated core does: those of the call, without its return.
    ``stack_bytes`` is how deep a ``paint`` job wrote the stack, from the call on; 0 for others.
    """

    outputs: tuple[Array, ...]
    counts: tuple[int, ...]
    stack_bytes: int = 0
    cycles: tuple[int, ...] = ()


@dataclass(frozen=True)
class ByAddress:
    """Address -> how often the instruction there was executed, and how often it branched.

    ``taken`` has the instructions at ends of the emulator's blocks alone: no other branches.
    """

    counts: Mapping[int, int]
    taken: Mapping[int, int]


class Runner(ABC):
    """Runs the programs of one card: on an emulator, on this computer, on a board that is plugged in.

    ``command`` runs a self-test; ``place`` says where, in words.
    """

    place: str

    @property
    @abstractmethod
    def command(self) -> tuple[str, ...]:
        """A command line, to which the path of a program is added."""

    @abstractmethod
    def need(self) -> None:
        """ToolError, with what to install, if anything is missing."""

    @abstractmethod
    def run(self, firmware: Firmware, jobs: Sequence[Job], *, count: bool, patience: float) -> list[Result]:
        """Run the jobs in order in one run of the program; ``jobs.py`` has its files.

        InvalidArgumentError if inputs do not fit; ToolError if a tool is missing, if it cannot ``count`` instructions
        but should, or if the program hangs (for more than ``patience`` seconds) or reports a fault.
        """

    def counted_by_address(self, firmware: Firmware, inputs: Sequence[Array], patience: float) -> ByAddress:
        """How often each instruction was executed in a run of the first model.

        The harness's few instructions around the run are included. ToolError where nothing counts single ones.
        """
        raise ToolError(f"nothing counts single instructions in {self.place}")


def runner_of(card: Card) -> Runner:
    """The runner of a card; InvalidArgumentError if the card has no board folder."""
    runner: Runner = card.architecture.runner(card)
    return runner


def run_jobs(
    firmware: Firmware, jobs: Sequence[Job], *, count: bool = True, patience: float = PATIENCE
) -> list[Result]:
    """A result for each job, by the runner of the program's card. Raises what ``Runner.run`` raises.

    All models of a program have one memory: InvalidArgumentError for a job that goes on behind one of another model.
    """
    for i, (before, job) in enumerate(pairwise(jobs), 1):
        if not job.fresh and job.model != before.model:
            raise InvalidArgumentError(
                f"job {i} goes on with the state of model {job.model}, but job {i - 1} was of model {before.model}, "
                "which uses the same memory: give the jobs of one model one after the other"
            )
    return runner_of(firmware.card).run(firmware, jobs, count=count, patience=patience)
