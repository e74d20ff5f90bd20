"""A plan made ready to run through cffi: the arena, the C structs of every call, and the loop over them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache
from itertools import accumulate, count
from time import monotonic
from typing import TYPE_CHECKING, Any

from twinfer import kernels_c
from twinfer.kernels_c import ffi, lib
from twinfer.runtime.errors import InvalidArgumentError
from twinfer.runtime.graph import Array, Tensor
from twinfer.runtime.plan.plan import Plan
from twinfer.runtime.program import COPY, Argument, Call, Chain, If, Program, Step, While, part_of
from twinfer.runtime.run import isa, limits
from twinfer.runtime.run.buffers import aligned_bytes, aligned_copy
from twinfer.runtime.run.feed import RowFeed
from twinfer.runtime.walks import unroll

if TYPE_CHECKING:
    from twinfer.runtime.run.split import Pool

#: Called around every step of an observed run: ``hook(position, step)``.
Hook = Callable[[int, Step], None]


@cache
def _clock_ns() -> int:
    """The time that ``tw_profile`` measures for a call that does nothing."""
    params, nothing = ffi.new(f"{COPY}_params *"), ffi.new("void *[1]")
    copy = kernels_c.kernel(COPY, isa.level())
    idle = ffi.new("tw_call *", {"fn": copy, "params": params, "out": nothing, "in": nothing})
    ns = ffi.new("int64_t *", 2**62)
    for _ in range(2000):
        lib.tw_profile(idle, 1, ns)
    return int(ns[0])


def _pool(plan: Plan, threads: int, level: int) -> Pool | None:
    """The threads that layers are split over, if there are several."""
    if threads == 1:
        return None
    from twinfer.runtime.run.split import Pool

    return Pool(plan, threads, level)


class Session:
    """The interpreter's engine: one buffer for arena and state, and one table of calls for a plan.

    ``level`` chooses the instruction-set level of the kernels (an index of ``kernels_c.LEVELS``; None: the best).
    ``feed_rows`` takes the input row by row, if the plan does. Large layers are split over ``threads`` (None: as many
    as were planned).
    """

    def __new__(cls, *given: object, **named: object) -> Session:
        """Of the class that can run here, so that whoever opens an engine need not ask for it."""
        if cls is Session and not kernels_c.BUILT:
            from twinfer.runtime.run.by_numpy import NumpySession

            return super().__new__(NumpySession)
        return super().__new__(cls)

    def __init__(self, plan: Plan, level: int | None = None, threads: int | None = None) -> None:
        limits.check_bytes(plan)
        self.plan = plan
        self._rounds = 0 if plan.straight else limits.limit("TWINFER_MAX_ROUNDS")
        work, self._long_call = self._work(), limits.Long()
        #: How long a run takes, about, in multiply-accumulates of int8.
        self.work = sum(work.values())
        #: The steps whose calls take long, -1 among them if the one does that brings the inputs.
        self._long = frozenset(i for i, each in work.items() if each > limits.LONG)
        #: Whether a whole run is one call, which it is if nothing branches and it does not take long.
        self._straight = plan.straight and self.work <= limits.LONG
        self.feed_rows: RowFeed | None = None
        self._keep: list[Any] = []
        self._level = isa.level() if level is None else isa.usable(level)
        self._pool = _pool(plan, threads or plan.options.threads, self._level)
        self.memory = aligned_bytes(plan.buffer_bytes)
        self._base = ffi.cast("char *", ffi.from_buffer(self.memory.data))
        self._constants = {constant: self._memory(constant.array) for constant in plan.constants}
        self._inputs = {t: aligned_bytes(t.nbytes) for t in plan.arena_inputs}
        self._loads, counts = len(self._inputs), [self._slots(i) for i in range(len(plan.steps))]
        self._number = {step: i for i, step in enumerate(plan.steps)}
        self._count = self._loads + sum(counts)
        self._calls = ffi.new("tw_call[]", max(1, self._count))
        for slot, (tensor, memory) in zip(self._calls, self._inputs.items(), strict=False):
            self._fill_load(slot, tensor, memory)
        self._first = [*accumulate(counts, initial=self._loads)]
        self._steps = [(ffi.addressof(self._calls, at), n) for at, n in zip(self._first, counts, strict=False)]
        for i, (slots, _) in enumerate(self._steps):
            self._fill_step(slots, i)
        start = [(step, call) for step in plan.start for call, _ in unroll(step.body)]
        self._starts, self._start_count = ffi.new("tw_call[]", max(1, len(start))), len(start)
        for slot, (step, call) in zip(self._starts, start, strict=False):
            self._fill(slot, step, call, 0)
        self.reset_variables()

    def _fill_load(self, slot: Any, tensor: Tensor, memory: Array) -> None:
        """Fill the call that brings an input to the arena; by rows it runs the chain that takes them."""
        if self.plan.fed:
            self._fill_feed(slot, self.plan.fed)
            self._keep.append(ffi.new("void *[]", [self._memory(memory)]))
            setattr(slot, "in", ffi.cast("const void *const *", self._keep[-1]))
        else:
            pointers = [self._memory(memory)], [self._address(tensor, 0)]
            self._bind(slot, COPY, {"size": tensor.nbytes}, pointers, ffi.NULL)

    def _fill_feed(self, slot: Any, chain: Chain) -> None:
        """Fill the call of the chain that takes rows, and say how it takes them one by one."""
        self._fill_chain(slot, chain)
        params, progress, base = slot.params, slot.out[0], slot.scratch

        def begin() -> None:
            self._long_call.wait()
            lib.tw_begin_rows(params, progress)

        self.feed_rows = RowFeed(
            self.plan, begin, lambda row: int(lib.tw_push_row(params, progress, base, row)), self._run_rest
        )

    def _work(self) -> dict[int, int]:
        """The work of every step, by its number; of a chain with the step whose call it is, -1 for the inputs' call."""
        number = {step: i for i, step in enumerate(self.plan.steps)}
        work = {i: limits.work_of(step) for step, i in number.items()}
        for chain in {*self.plan.chains.values()}:
            members = [number[layer.step] for layer in chain.layers]
            work[-1 if chain.feed else members[-1]] = sum(work.pop(i) for i in members)
        return work

    def _slots(self, i: int) -> int:
        """How many calls step ``i`` takes; a chain is one, with its last step, or if it has a feed with the input."""
        step = self.plan.steps[i]
        if chain := self.plan.chains.get(step):
            return (1 + sum(1 for _ in unroll(chain.before))) * (chain.layers[-1].step is step and not chain.feed)
        return sum(1 for _ in unroll(step.body))

    def _fill_step(self, slots: Any, i: int) -> None:
        """Fill the calls of step ``i``; CompiledSession puts the model's own function there."""
        step = self.plan.steps[i]
        if chain := self.plan.chains.get(step):
            if count := self._slots(i):
                for slot, (call, _) in enumerate(unroll(chain.before)):
                    self._fill(slots[slot], step, call, 0)
                self._fill_chain(slots[count - 1], chain)
            return
        if self._pool and self._pool.fill(slots[0], step, lambda argument: self._address(argument, 0)):
            return
        for slot, (call, iteration) in enumerate(unroll(step.body)):
            self._fill(slots[slot], step, call, iteration)

    def _fill_chain(self, slot: Any, chain: Chain) -> None:
        from twinfer.runtime.run.chain_call import ChainCall  # only plans by rows need it

        call = ChainCall(self.plan, chain, lambda argument: self._address(argument, 0), self._level)
        self._keep.append(call)
        slot.fn, slot.params, slot.out = call.fn, call.params, call.out
        setattr(slot, "in", ffi.cast("const void *const *", call.inputs))
        slot.scratch = self._base + self.plan.regions[self.plan.region_of(chain)].offset

    def _fill(self, slot: Any, step: Step, call: Call, iteration: int) -> None:
        inputs = [self._address(argument, iteration) for argument in call.inputs]
        outputs = [self._address(argument, iteration) for argument in call.outputs]
        self._bind(slot, call.kernel, call.params, (inputs, outputs), self._address(step.scratch, 0))

    def _bind(
        self, slot: Any, kernel: str, params: Mapping[str, Any], pointers: tuple[list[Any], list[Any]], scratch: Any
    ) -> None:
        """Write one call of the table, ``pointers`` being its inputs and its outputs."""
        struct = kernels_c.new_params(kernel, params)
        inputs, outputs = (ffi.new("void *[]", side) for side in pointers)
        self._keep += [struct, inputs, outputs]
        slot.fn = self._function(kernel)
        slot.params, slot.out, slot.scratch = struct, outputs, scratch
        setattr(slot, "in", ffi.cast("const void *const *", inputs))

    def _function(self, kernel: str) -> Any:
        """Where a kernel's code is."""
        return kernels_c.kernel(kernel, self._level)

    def _address(self, argument: Argument, iteration: int) -> Any:
        """Where an argument lies in an iteration of the loop around its call."""
        if argument is None:
            return ffi.NULL
        part = part_of(argument)
        value = part.value
        start = self._base + self.plan.offsets[value] if isinstance(value, Tensor) else self._constants[value]
        return start + part.at(iteration)

    def _memory(self, array: Array) -> Any:
        """The address of an array, which the session keeps alive; the address of an empty one must not be used."""
        copy = aligned_copy(array)
        self._keep += [array, copy]
        return ffi.cast("char *", ffi.from_buffer(copy.data)) if copy.size else self._base

    def view(self, tensor: Tensor) -> Array:
        """The tensor's memory as an array of its dtype and shape.

        A graph input has memory of its own, which every run copies into the arena: it may be set once and run often.
        One that a step writes is in the state instead, and keeps what was written.
        """
        if tensor.data is not None:
            return tensor.data
        if tensor in self._inputs:
            return self._inputs[tensor].view(tensor.dtype).reshape(tensor.shape)
        at = self.plan.offsets[tensor]
        return self.memory[at : at + tensor.nbytes].view(tensor.dtype).reshape(tensor.shape)

    def feed(self, inputs: Sequence[Array]) -> None:
        """Set the graph's inputs, one array per input, of the tensor's shape; values of constant inputs are ignored."""
        for tensor, value in zip(self.plan.graph.inputs, inputs, strict=True):
            if tensor.data is None:
                self.view(tensor)[...] = value

    def outputs(self) -> list[Array]:
        """Copies of the graph's outputs, as the last run has left them."""
        return [self.view(tensor).copy() for tensor in self.plan.graph.outputs]

    def run(self) -> None:
        """Run all steps; in one C call, unless the program branches, loops, or may take long."""
        if self._straight:
            lib.tw_run(self._calls, self._count)
        else:
            begun = monotonic()
            self.run_observed(None)
            self._straight = self.plan.straight and monotonic() - begun < limits.SHORT

    def _run_rest(self) -> None:
        """Run what follows the inputs."""
        if self._straight:
            lib.tw_run(self._calls + self._loads, self._count - self._loads)
        else:
            for i in self.order(self.plan.program):
                self.run_step(i)

    @property
    def run_calls(self) -> int:
        """How many calls of a table a whole run is, if it does not branch."""
        return self._count

    def fill_run(self, slots: Any, given: Mapping[Tensor, Any]) -> object:
        """Write a run that finds its inputs at the ``given`` addresses to a table; what comes back must live on."""
        ffi.memmove(slots, self._calls, ffi.sizeof("tw_call") * self._count)
        keep = [ffi.new("void *[]", [given[tensor]]) for tensor in self._inputs]
        for slot, pointers in zip(slots[0 : self._loads], keep, strict=True):
            setattr(slot, "in", ffi.cast("const void *const *", pointers))
        return keep

    def run_table(self, calls: Any, count: int) -> None:
        """Make the calls of a table that ``fill_run`` has filled."""
        self._long_call.wait()
        lib.tw_run(calls, count)

    def address(self, tensor: Tensor) -> Any:
        """Where a tensor lies that is no constant."""
        return self._address(tensor, 0)

    def run_observed(self, on_call: Hook | None) -> None:
        """Run step by step from Python; ``on_call`` is called after every step and can look at its outputs.

        InvalidArgumentError for a plan whose layers run by rows: there is no moment at which one alone has run.
        """
        if on_call is not None and self.plan.chains:
            raise InvalidArgumentError("layers that run by rows cannot be observed: plan with Options(memory='layers')")
        run, steps, long = lib.tw_run, self.plan.steps, self._long
        self.load_inputs()
        for i in self.order(self.plan.program):
            if i in long:
                self.run_step(i)
            else:
                run(*self._steps[i])
            if on_call is not None:
                on_call(i, steps[i])

    def order(self, program: Program) -> Iterator[int]:
        """The numbers of the steps as they are run; whoever asks for the next has run the one before.

        ModelError if its loops go round more often than they may.
        """
        return self._order(program, count(1))

    def _order(self, program: Program, rounds: Iterator[int]) -> Iterator[int]:
        for part in program:
            match part:
                case Step():
                    yield self._number[part]
                case Chain():
                    yield from (self._number[layer.step] for layer in part.layers)
                case If():
                    yield from self._order(part.then if self._holds(part.condition) else part.orelse, rounds)
                case While():
                    yield from self._order(part.test, rounds)
                    while self._holds(part.condition):
                        if next(rounds) > self._rounds:
                            raise limits.rounds_error(self.plan, part.condition, self._rounds)
                        yield from self._order((*part.body, *part.test), rounds)

    def _holds(self, condition: Tensor) -> bool:
        return bool(self.memory[self.plan.offsets[condition]])

    def load_inputs(self) -> None:
        """Copy the inputs into the arena, to begin a run that goes on with ``run_step`` for every step."""
        self._long_call.wait()
        self._call(-1, lib.tw_run, self._calls, self._loads)

    def run_step(self, i: int) -> None:
        """Run one step alone."""
        self._call(i, lib.tw_run, *self._steps[i])

    def _call(self, i: int, function: Callable[..., object], *arguments: object) -> None:
        """Call a function in C that runs step ``i``, or brings the inputs (-1): if that takes long, beside Python."""
        if i in self._long:
            self._long_call.call(self, lambda: function(*arguments))
        else:
            function(*arguments)

    def run_from(self, i: int) -> None:
        """Run step ``i`` and all that follow in one C call, over what the memory holds; only a straight program."""
        lib.tw_run(self._calls + self._first[i], self._count - self._first[i])

    def profile(self, runs: int) -> list[int]:
        """The shortest time of every step in ``runs`` whole runs, in nanoseconds, measured in C.

        The cost of reading the clock is taken off. Where a step runs several times in a run, they count together.
        """
        times = [self._profiled() for _ in range(runs)]
        return [min(column) for column in zip(*times, strict=True)]

    def _profiled(self) -> list[int]:
        clock, times = _clock_ns(), [0] * len(self._steps)
        self.load_inputs()
        for i in self.order(self.plan.program):
            times[i] += self._time_of(i, clock)
        return times

    def profile_alone(self) -> list[int]:
        """The time of every step that runs twice in a row, in nanoseconds: it finds its data in the caches.

        Only a straight program, after a run: every step works on what that has left.
        """
        clock, times = _clock_ns(), list[int]()
        for i in range(len(self._steps)):
            self.run_step(i)
            times.append(self._time_of(i, clock))
        return times

    def _time_of(self, i: int, clock: int) -> int:
        """Run step ``i``: the time of its calls in nanoseconds, without what reading the clock takes."""
        slots, count = self._steps[i]
        ns = ffi.new("int64_t[]", [2**62] * count)
        self._call(i, lib.tw_profile, slots, count, ns)
        return sum(max(0, ns[k] - clock) for k in range(count))

    def reset_variables(self) -> None:
        """Set variables to their first values, and decode the weights that are decoded at the start."""
        self._long_call.wait()
        for tensor in self.plan.variables:
            at = self.plan.offsets[tensor]
            self.memory[at : at + tensor.nbytes] = self.plan.first_values[tensor]
        lib.tw_run(self._starts, self._start_count)
