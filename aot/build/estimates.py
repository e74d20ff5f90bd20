"""What a plan costs on a core, estimated before anything is compiled: instructions, cycles, bytes of code and stack.

Instructions come from ``runtime/plan/price.py``, bytes of code from ``choice.py`` beside it, cycles from means of
``twinfer bench --cycles``. On kws, vww, ic and ad01 instructions are within 25 % of the count under QEMU.
"""

from __future__ import annotations

from dataclasses import dataclass

from twinfer.runtime.plan.by_rows.price import rows_share
from twinfer.runtime.plan.choice import code_bytes, data_bytes, default_policy
from twinfer.runtime.plan.plan import Plan
from twinfer.runtime.plan.price import instructions, outputs_of, price_of

#: Bytes of stack that are kept for a run: the largest bound of the built-in models is 760. Interrupts come on top.
STACK_BYTES = 1024


@dataclass(frozen=True)
class Need:
    """What a model needs of a board, in bytes. ``data`` is that of libraries, which is in RAM and in flash. ``code``,
    ``stack`` and ``data`` are estimates unless the caller has measured."""

    arena: int
    constants: int
    code: int = 0
    state: int = 0
    stack: int = 0
    data: int = 0

    @property
    def ram(self) -> int:
        return self.arena + self.state + self.stack + self.data

    @property
    def flash(self) -> int:
        return self.constants + self.code + self.data


@dataclass(frozen=True)
class Core:
    """What is known of a core: ``cycles`` of an instruction, how many instructions it takes for each that is priced.

    ``taken`` of its instructions are branches that are taken; an instruction has ``nbytes``.
    """

    cycles: float
    taken: float
    nbytes: float
    slower: float = 1.0


#: By the names of their cards: means over kws, vww, ic, ad01 and digits. Cycles of the M0 and M0+ are those of Arm's
#: tables (DDI 0432C, DDI 0484C: loads and stores 2, taken branches 3 and 2, products 1), of RISC-V those that Ibex and
#: CV32E40P took as simulated (docs/microcontrollers.md), of others LLVM's models.
CORES = {
    "cortex-m0": Core(1.44, 0.043, 2.0, 2.0),
    "cortex-m0plus": Core(1.40, 0.043, 2.0, 2.0),
    "cortex-m3": Core(1.61, 0.028, 3.7),
    "cortex-m4": Core(1.40, 0.030, 3.6),
    "cortex-m7": Core(1.01, 0.030, 3.6),
    "cortex-m33": Core(1.40, 0.030, 3.6),
    "cortex-m55": Core(1.34, 0.030, 3.6),
    **dict.fromkeys(("riscv32", "riscv32imc", "riscv32imafc"), Core(1.06, 0.09, 3.2)),
}


def need_of(plan: Plan) -> Need:
    """What a plan needs, its code, stack and libraries' data estimated."""
    sizes = plan.arena_bytes, plan.constant_bytes, code_bytes(plan), plan.state_bytes
    return Need(*sizes, STACK_BYTES, data_bytes(plan))


def counted(plan: Plan, core: str) -> float | None:
    """About the instructions of a run on the core of that card; None if they are unknown.

    They are for other architectures, and for weights that are decoded in every run.
    """
    if core not in CORES or plan.decoding_bytes:
        return None
    called = [plan.steps[i] for i in default_policy(plan)]
    shared = sum(max(0.0, price_of(step.call, plan.target).saved) * outputs_of(step) for step in called)
    return (instructions(plan.steps, plan.target) + shared) * (1 + rows_share(plan)) * CORES[core].slower


def cycles_each(core: str, wait_states: int = 0, fetch_bytes: int = 1) -> float:
    """About the cycles of an instruction from flash with so many wait states and no cache, as ``cycles.waits`` takes
    them: straight code waits where its fetches take longer than its execution, and every branch for its target."""
    known = CORES[core]
    fetches = known.nbytes / fetch_bytes * (1 + wait_states) if wait_states else 0.0
    return max(known.cycles, fetches) + known.taken * wait_states
