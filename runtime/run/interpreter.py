"""The interpreter: LiteRT's Python API over a plan, so that a user changes one import."""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from pathlib import Path
from threading import RLock
from typing import TYPE_CHECKING, Any, Self

from twinfer.runtime.check import need_graph
from twinfer.runtime.entry import named, with_main
from twinfer.runtime.errors import InvalidArgumentError, ModelWarning, NotReadyError
from twinfer.runtime.graph import Array, Graph, Tensor, walk
from twinfer.runtime.options import USUAL, Floats, Options
from twinfer.runtime.plan.plan import Plan
from twinfer.runtime.read.files import read_bytes
from twinfer.runtime.run import isa
from twinfer.runtime.run.details import NUMPY_TYPES
from twinfer.runtime.run.feed import RowFeed
from twinfer.runtime.run.litert import OpResolverType, check_delegates, check_resolver
from twinfer.runtime.run.resources import Resources
from twinfer.runtime.run.session import Hook, Session
from twinfer.runtime.run.signature_runner import SignatureRunner
from twinfer.runtime.run.subgraph import Subgraph
from twinfer.runtime.run.tensor_buffer import BufferRuns

if TYPE_CHECKING:
    from twinfer.runtime.run.batch import Runner
    from twinfer.runtime.run.predict import Job
    from twinfer.runtime.run.stream import Steps


class Interpreter(BufferRuns):
    """Runs a .tflite model operator by operator; the methods are those of LiteRT's ``Interpreter``.

    ``model_path`` or ``model_content`` (bytes) gives the model. ``experimental_preserve_all_tensors`` gives every
    tensor memory of its own, so that intermediate ones can be read after a run. Layers with much to compute are split
    over ``num_threads`` (None: 1; at most 64 are used), with the same bits. ``on_call(position, step)``, ours alone, is
    called after every step; without it the whole plan runs in one C call, unless it is large. ``guard``, also ours
    alone, spreads the arena out and watches every step; GuardError names one that uses memory that is not its own.
    Ours, too: ``input_rows`` is for ``begin``, ``push_row`` and ``finish``, ``tuned`` takes what ``twinfer tune`` has
    found; ``floats`` "fused" rounds a product of floats and its sum once. Delegates are refused; the other experimental
    arguments change nothing. Errors have LiteRT's types, ValueError and RuntimeError, as bases. ModelError: the model
    is damaged, or takes more memory or rounds of its loops than ``TWINFER_MAX_BYTES`` and ``TWINFER_MAX_ROUNDS`` allow.
    Operators without a kernel raise UnsupportedOperatorError in ``allocate_tensors``, before anything runs.

    Any number of Python threads may use one interpreter: their calls take turns, those of other interpreters run
    beside them. An inference of several calls (set, invoke, get) is one thread's alone only if the program sees to it,
    or through a signature runner, whose call is one turn.
    """

    def __init__(
        self,
        model_path: str | os.PathLike[str] | None = None,
        model_content: bytes | None = None,
        experimental_delegates: Sequence[object] | None = None,
        num_threads: int | None = None,
        experimental_op_resolver_type: object = OpResolverType.AUTO,
        experimental_preserve_all_tensors: bool = False,
        experimental_disable_delegate_clustering: bool = False,
        experimental_default_delegate_latest_features: bool = False,
        experimental_compress_quantization_zero_points: bool = False,
        experimental_disable_delegate_node_fusion: bool = False,
        experimental_force_delegate_node_profiling: bool = False,
        *,
        on_call: Hook | None = None,
        guard: bool = False,
        input_rows: bool = False,
        tuned: bool = False,
        floats: Floats = "exact",
    ) -> None:
        check_delegates(experimental_delegates)
        check_resolver(experimental_op_resolver_type)
        if num_threads is not None and (not isinstance(num_threads, int) or num_threads < 1):
            raise InvalidArgumentError(f"num_threads must be a positive integer, not {num_threads!r}")
        if (model_path is None) == (model_content is None):
            raise InvalidArgumentError("give one of model_path and model_content")
        keep = experimental_preserve_all_tensors
        self._compressed = experimental_compress_quantization_zero_points
        options = Options(guard=guard, preserve_all=keep, input_rows=input_rows, tuned=tuned, floats=floats)
        self._setup(_read(model_path, model_content), options, on_call, num_threads or 1)

    @classmethod
    def from_graph(cls, graph: Graph, options: Options = USUAL, *, on_call: Hook | None = None) -> Self:
        """An interpreter of a Graph that is in memory already."""
        self = cls.__new__(cls)
        self._setup(graph, options, on_call)
        return self

    def _setup(self, graph: Graph, options: Options, on_call: Hook | None, threads: int = 1) -> None:
        need_graph(graph)
        self._lock = RLock()  # whoever has it may call again, as ``on_call`` may
        self._subgraphs = [Subgraph(g, options, partial(with_main, graph, i)) for i, g in enumerate(walk(graph))]
        self._resources = Resources()
        self._signatures = {s.key: s for s in graph.signatures}
        self.on_call, self._options, self._threads = on_call, options, threads
        self._compressed = getattr(self, "_compressed", False)
        self._beside: tuple[object, list[Session]] = None, []  # the engines of predict, for which shapes

    def _open(self, plan: Plan, threads: int = 1) -> Session:
        """The engine that runs a plan; CompiledModel opens another one here."""
        return Session(plan, threads=threads)

    def _make(self, index: int, graph: Graph) -> Session:
        """The engine of subgraph ``index`` of the file, which is the main one of ``graph``."""
        plan = self._plan(graph)
        engine = self._open(self._spread(plan), self._threads)
        self._resources.join(engine, index, self._engines())
        return engine

    def _spread(self, plan: Plan) -> Plan:
        """The plan, with gaps if guard is on."""
        if not self._options.guard:
            return plan
        from twinfer.runtime.run.guard import spread

        return spread(plan)

    def _plan(self, graph: Graph) -> Plan:
        from twinfer.runtime.plan.make import make_plan  # brings the planner and all operators

        return make_plan(graph, isa.this_computer(), self._options)

    def _engines(self) -> dict[int, Session]:
        """The engines that there are, by the number of their subgraph."""
        return {i: each.engine for i, each in enumerate(self._subgraphs) if each.engine is not None}

    @property
    def session(self) -> Session:
        """The engine of the main subgraph, for reports and measurements; NotReadyError before allocate_tensors()."""
        return self._subgraphs[0].ready()

    @property
    def plan(self) -> Plan:
        """The plan in use; NotReadyError before allocate_tensors()."""
        return self.session.plan

    # -- running ---------------------------------------------------------------------------------------------------

    def allocate_tensors(self) -> None:
        """Plan the arena and make everything ready; does nothing if nothing has changed since the last call."""
        with self._lock:
            self._subgraphs[0].allocate(partial(self._make, 0))

    def invoke(self) -> None:
        """One inference; variables keep their values for the next one."""
        with self._lock:
            self._invoke(self._subgraphs[0])

    def _invoke(self, subgraph: Subgraph) -> None:
        engine = subgraph.ready()
        self._resources.enter(engine)
        if self._options.guard:
            from twinfer.runtime.run.guard import Guard

            Guard(engine).run(self.on_call)
        elif self.on_call is not None:
            engine.run_observed(self.on_call)
        else:
            engine.run()
        subgraph.runs += 1

    def run(self, inputs: Any, *, integers: bool = False) -> Any:
        """One inference: inputs in, outputs out. An input whose shape differs is resized; variables keep their values.

        ``inputs``: an array; of a model with several inputs a list in their order, or a dict by name. Floats for an
        input of quantised integers are real numbers, which are quantised; an array of the input's own type is taken as
        it is; any other type is refused. Outputs are real numbers, float32, or with ``integers`` as the model gives
        them: an array, or of several outputs a list. This method is ours alone, as are ``predict`` and ``evaluate``.
        """
        from twinfer.runtime.affine import stored
        from twinfer.runtime.run.predict import by_input, ends

        with self._lock:
            main = self._subgraphs[0]
            arrays = by_input(main.graph.inputs, inputs)
            indices = [i for i in map(main.graph.tensors.index, main.graph.inputs) if main.tensor(i).data is None]
            for i, array in zip(indices, arrays, strict=True):
                main.resize(i, array.shape, strict=False)
            self.allocate_tensors()
            for i, array in zip(indices, arrays, strict=True):
                main.set(i, stored(array, main.tensor(i)))
            self._invoke(main)
            return ends(main.graph.outputs, [main.ready().view(t) for t in main.graph.outputs], integers)

    def predict(
        self, inputs: Any, *, integers: bool = False, workers: int | None = None, batch_size: int | None = None
    ) -> Any:
        """The outputs of N samples, which do not depend on each other. Values are as in ``run``.

        Arrays have the samples along their first axis: [N, ...] for an input [1, ...], or [N, 1, ...], each sample with
        all axes of the input. Several threads share them, ``workers`` (None: ``num_threads``), each with memory of its
        own. ``batch_size`` computes so many in one run, by resizing the inputs: for models whose samples do not mix.
        What ``set_tensor`` has set stays; every sample begins with the variables as they are now, and leaves them so.
        """
        from twinfer.runtime.run.predict import by_input, job_of, predicted

        with self._lock:
            main = self._subgraphs[0]
            free = [tensor for tensor in main.graph.inputs if tensor.data is None]
            present = [tuple(int(n) for n in each["shape"]) for each in self.get_input_details()]
            shapes = [shape for t, shape in zip(main.graph.inputs, present, strict=True) if t.data is None]
            job = job_of(free, shapes, by_input(main.graph.inputs, inputs), batch_size)
            return predicted(self._runners(job, workers), job, integers)

    def _runners(self, job: Job, workers: int | None) -> list[Runner]:
        """An engine for each worker; those of the last call again where they fit."""
        from twinfer.runtime.run.batch import Runner
        from twinfer.runtime.run.predict import MOST_WORKERS

        if workers is not None and (not isinstance(workers, int) or workers < 1):
            raise InvalidArgumentError(f"workers must be a positive integer, not {workers!r}")
        count = max(1, min(workers or self._threads, job.runs, MOST_WORKERS))
        main = self._subgraphs[0]
        subgraph = Subgraph(main.file_graph, self._options, main.whole)
        subgraph.wanted = dict(main.wanted)
        free = [i for i, t in enumerate(main.file_graph.tensors) if t in main.file_graph.inputs and t.data is None]
        order = sorted(free, key=lambda i: main.file_graph.inputs.index(main.file_graph.tensors[i]))
        for i, shape in zip(order, job.shapes, strict=True):
            subgraph.resize(i, shape, strict=False)
        threads = 1 if count > 1 else self._threads
        key = (tuple(sorted(subgraph.wanted.items())), threads)
        if self._beside[0] != key:
            self._beside = key, []
        engines = self._beside[1]
        state = None
        if subgraph.wanted == main.wanted:
            self.allocate_tensors()
            engine = main.ready()
            self._resources.enter(engine)
            plan = engine.plan
            state = [engine.view(tensor).copy() for tensor in plan.variables]
        elif not engines:
            subgraph.allocate(lambda graph: self._open(self._spread(self._plan(graph)), threads))
            engines.append(subgraph.ready())
        while len(engines) < count:
            engines.append(self._open(engines[0].plan if engines else plan, threads))
        return [Runner(engine, -(-job.runs // count), state) for engine in engines[:count]]

    def evaluate(self, inputs: Any, wanted: Any, *, workers: int | None = None) -> dict[str, float]:
        """How good the model is on N samples, which it takes as ``predict`` does.

        ``wanted``: whole numbers are classes, one per answer; an answer is the arg-max along the output's last axis, or
        of one value whether it is above 0.5. Rows of 0s with one 1 are classes, too. Floats are targets. Returns
        {"samples", "accuracy"} for classes, {"samples", "mae", "rmse", "max_error", "r2"} for targets. The model has
        one output.
        """
        from twinfer.runtime.run.predict import scores

        outputs = self._subgraphs[0].graph.outputs
        if len(outputs) != 1:
            raise InvalidArgumentError(f"the model has {len(outputs)} outputs: predict() gives them, to judge yourself")
        return scores(outputs[0], self.predict(inputs, workers=workers), wanted)

    def begin(self) -> None:
        """Begin an inference whose input comes row by row: ``push_row`` for every row from the first on, ``finish``.

        The three are ours alone. Raises InvalidArgumentError for a model that was not planned with ``input_rows``.
        """
        with self._lock:
            self._resources.enter(self.session)
            self._rows().begin()

    def push_row(self, row: Any) -> int:
        """Give the next row of the input, an array of its dtype; returns how many more are wanted.

        Raises InvalidArgumentError for an array of another type or size, NotReadyError before ``begin``.
        """
        with self._lock:
            return self._rows().push(row)

    def finish(self) -> None:
        """End the inference: outputs can be read. Raises InvalidArgumentError while rows are wanted."""
        with self._lock:
            self._rows().finish()
            self._subgraphs[0].runs += 1

    def _rows(self) -> RowFeed:
        if (feed := self.session.feed_rows) is None or self._options.guard:
            why = "guard is on" if self._options.guard else "plan with Options(input_rows=True)"
            raise InvalidArgumentError(f"{self.plan.graph.name!r} takes its input whole: {why}")
        return feed

    def stream(self, chunks: Iterable[Any]) -> Iterator[list[Array]]:
        """Run a model with state over a stream: a step whenever ``chunks`` have brought its rows; yields its outputs.

        A chunk is an array of the input's dtype with any number of rows, time first. A model of ``twinfer stream`` says
        how many rows make a window: outputs come from the first full one on. The stream goes on from one call to the
        next, with variables and rows that wait; ``reset_all_variables`` begins anew. This method is ours alone. Raises
        InvalidArgumentError for a model with several inputs or without state, and for a chunk that is no whole number
        of rows.
        """
        from twinfer.runtime.run.stream import METADATA, steps_of

        session = self.session
        steps = steps_of(session.plan.graph)
        if not session.plan.state_bytes and METADATA not in session.plan.graph.metadata:
            why = "keeps nothing from run to run: twinfer stream makes a streaming model of one over windows"
            raise InvalidArgumentError(f"{session.plan.graph.name!r} {why}")
        for chunk in chunks:
            outputs, waiting = self._step(session, steps, chunk)
            while waiting:
                if outputs is not None:
                    yield outputs
                outputs, waiting = self._step(session, steps)

    def _step(self, session: Session, steps: Steps, chunk: Any = None) -> tuple[list[Array] | None, bool]:
        """Take a chunk, if there is one, and run one step of a stream if there are rows for it.

        Returns the outputs, if there are some, and whether it has run.
        """
        from twinfer.runtime.run.stream import Rows

        subgraph = self._subgraphs[0]
        with self._lock:
            if subgraph.ready() is not session:
                raise NotReadyError("the tensors were allocated anew: call stream() again")
            rows = subgraph.rows = subgraph.rows or Rows(steps)
            if chunk is not None:
                rows.add(chunk)
            if (value := rows.next()) is None:
                return None, False
            session.view(steps.source)[...] = value
            self._invoke(subgraph)
            return session.outputs() if subgraph.runs >= steps.first else None, True

    def reset_all_variables(self) -> None:
        """Set all variables of all signatures to their first values.

        Allocation does that, too, but for variables with a name (VAR_HANDLE), which last as long as the interpreter.
        """
        with self._lock:
            self._resources.reset(self._engines())
            self._subgraphs[0].begin()

    def resize_tensor_input(self, input_index: int, tensor_size: Sequence[int], strict: bool = False) -> None:
        """Give an input another shape, as of the next allocate_tensors(). ``strict``: only open dimensions."""
        from twinfer.runtime.shapes import shape_of

        with self._lock:
            self._subgraphs[0].resize(input_index, shape_of(tensor_size), strict)

    # -- tensors ---------------------------------------------------------------------------------------------------

    def set_tensor(self, tensor_index: int, value: Any) -> None:
        """Copy ``value`` (numpy array of the tensor's dtype and shape) into an input or variable."""
        with self._lock:
            self._subgraphs[0].set(tensor_index, value)

    def get_tensor(self, tensor_index: int, subgraph_index: int = 0) -> Array:
        """A copy of the tensor's value; an intermediate one needs experimental_preserve_all_tensors.

        Another subgraph than the main one has values after a run of a signature that begins there.
        """
        with self._lock:
            return self._subgraph(subgraph_index).view(tensor_index).copy()

    def _subgraph(self, index: int) -> Subgraph:
        if not isinstance(index, int) or not 0 <= index < len(self._subgraphs):
            raise InvalidArgumentError(f"subgraph {index!r} is outside 0..{len(self._subgraphs) - 1}")
        return self._subgraphs[index]

    def tensor(self, tensor_index: int) -> Callable[[], Array]:
        """A function that gives the tensor's memory as an array, without a copy; valid until the next allocation.

        What another thread's ``invoke`` writes there meanwhile is seen half done.
        """
        subgraph = self._subgraphs[0]
        subgraph.tensor(tensor_index)

        def view() -> Array:
            with self._lock:
                return subgraph.view(tensor_index)[...]

        return view

    # -- details ---------------------------------------------------------------------------------------------------

    def get_input_details(self, index: int | None = None) -> Any:
        """One dictionary per input, with LiteRT's keys: name, index, shape, shape_signature, dtype, quantization, …

        With ``index``, as in TFLM, that of the input of this number.
        """
        return self._details(lambda graph: graph.inputs, index)

    def get_output_details(self, index: int | None = None) -> Any:
        """One dictionary per output, as ``get_input_details``."""
        return self._details(lambda graph: graph.outputs, index)

    def get_tensor_details(self, subgraph_index: int = 0) -> list[dict[str, Any]]:
        """One dictionary per tensor of a subgraph, in index order; types that numpy cannot name are left out."""
        subgraph = self._subgraph(subgraph_index)
        with self._lock:
            known = [i for i, t in enumerate(subgraph.graph.tensors) if t.type in NUMPY_TYPES]
            return [subgraph.details(i) for i in known]

    def _details(self, which: Callable[[Graph], Sequence[Tensor]], one: int | None) -> Any:
        subgraph = self._subgraphs[0]
        with self._lock:
            index = {t: i for i, t in enumerate(subgraph.graph.tensors)}
            every = [subgraph.details(index[t]) for t in which(subgraph.graph)]
        if one is None:
            return every
        if not isinstance(one, int) or not 0 <= one < len(every):
            raise InvalidArgumentError(f"number {one!r} is outside 0..{len(every) - 1}")
        return every[one]

    @property
    def experimental_compress_quantization_zero_points(self) -> bool:
        """What the argument of that name was; it changes nothing."""
        return self._compressed

    def num_subgraphs(self) -> int:
        """How many subgraphs the model has: the main one, and those that control flow calls."""
        return len(self._subgraphs)

    # -- signatures ------------------------------------------------------------------------------------------------

    def get_signature_list(self) -> dict[str, dict[str, list[str]]]:
        """Signature key -> {"inputs": names, "outputs": names}."""
        return {key: {"inputs": sorted(s.inputs), "outputs": sorted(s.outputs)} for key, s in self._signatures.items()}

    def get_signature_runner(self, signature_key: str | None = None) -> SignatureRunner:
        """A callable for one signature; the key may be left out where there is only one."""
        if signature_key is None:
            if len(self._signatures) != 1:
                raise InvalidArgumentError(f"this model has {len(self._signatures)} signatures, name one of them")
            signature_key = next(iter(self._signatures))
        signature = named(self._signatures.values(), signature_key)
        make = partial(self._make, signature.subgraph)
        return SignatureRunner(self._subgraphs[signature.subgraph], signature, make, self._invoke, self._lock)


def _read(path: str | os.PathLike[str] | None, content: Any) -> Graph:
    """The model of a file or of its content; warns as ``read`` does, at the line that made the interpreter."""
    from twinfer.runtime.read.tflite import parse

    name = "model"
    if path is not None:
        content, name = read_bytes(path), Path(path).stem
    graph, repaired = parse(content, name)
    if repaired:
        warnings.warn(repaired, ModelWarning, stacklevel=3)
    return graph
