"""Post-training quantisation: a float graph and what calibration saw of it -> a graph of integers."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Any

import numpy as np

from twinfer.converter.facts import Parameters
from twinfer.converter.loops import found, tie_scales
from twinfer.converter.passes._rewrite import rebuild
from twinfer.converter.quantize.affine import LIMITS, Range, activation, data_range
from twinfer.converter.quantize.forms import precision_of
from twinfer.converter.quantize.groups import Groups, rounding
from twinfer.converter.quantize.hybrid import dynamic
from twinfer.converter.quantize.masks import ENDLESS, WORTH, depth, named_outputs, spans
from twinfer.converter.quantize.methods import method
from twinfer.converter.quantize.observed import Calibration
from twinfer.converter.quantize.places import places
from twinfer.converter.quantize.recipe import DEFAULT, Choice, Recipe
from twinfer.converter.quantize.rounding import Gram, adaptive
from twinfer.converter.quantize.weights import Layer, bias_tensor, correction, integers, weight_quant, weight_tensor
from twinfer.converter.table import row_of, with_versions
from twinfer.runtime.affine import quantize as to_integers
from twinfer.runtime.check import check
from twinfer.runtime.errors import InvalidArgumentError
from twinfer.runtime.graph import Graph, Node, Quant, Signature, Tensor
from twinfer.runtime.read import schema

#: Suffixes of the names of further forms of a tensor.
SUFFIX = {"INT8": "_int8", "INT16": "_int16", "FLOAT32": "_float"}

#: Weights of a channel that a scale of its own pays for in a recurrent layer: it takes 12 bytes, and gains 0.5 dB.
LEAST_ROW = 128


@dataclass(frozen=True)
class Options:
    """Options of ``quantize`` beside the recipe.

    ``inference_type``: type of the graph's float inputs and outputs, "FLOAT32" to keep them, with QUANTIZE and
    DEQUANTIZE at the borders; "LAYERS": each has the type of the layer that makes it, or the finest of those that read
    it; None is the type of the default precision. ``bias_correction``: biases make up for what
    the rounding of the weights adds on average. ``grams`` (``rounding.grams`` of this graph): the weights of these
    nodes are rounded so that outputs change least, not to the nearest. ``loops``: steps that repeat get the same
    scales, so that they can become a loop.
    """

    inference_type: str | None = None
    bias_correction: bool = False
    grams: Mapping[Node, Gram] = field(default_factory=dict)
    loops: bool = True

    def border(self, recipe: Recipe) -> str:
        if self.inference_type not in (None, "LAYERS", "FLOAT32", "INT8", "INT16"):
            raise InvalidArgumentError(f"{self.inference_type!r} is no inference type: FLOAT32, INT8, INT16 or LAYERS")
        return self.inference_type or recipe.default.type


PLAIN = Options()


def quantize(graph: Graph, seen: Calibration, recipe: Recipe = DEFAULT, options: Options = PLAIN) -> Graph:
    """The quantised twin of a float graph.

    ``seen`` is what ``calibrate`` says of this very graph. Nodes whose row has no integer types, that the recipe keeps,
    or whose integer form has no kernel, stay float between DEQUANTIZE and QUANTIZE. A tensor keeps its name in the type
    in which it is computed; its other forms get a suffix. InvalidArgumentError where ``seen`` lacks a tensor.
    """
    writer = _Writer(graph, seen, recipe, options)
    for tensor in graph.inputs:
        writer.input(tensor)
    for node in graph.nodes:
        writer.node(node)
    quantized = with_versions(writer.graph())
    check(quantized)
    return quantized


@dataclass
class _Writer:
    """The quantised graph while it is written.

    ``home``: the form in which a tensor is computed. ``forms``: all its forms, by type and quantisation. ``same``: for
    integers of the float graph, those that hold the same. ``small``: int8 weights of layers whose values are float.
    """

    source: Graph
    seen: Calibration
    recipe: Recipe
    options: Options
    nodes: list[Node] = field(default_factory=list)
    inputs: list[Tensor] = field(default_factory=list)
    home: dict[Tensor, Tensor] = field(default_factory=dict)
    forms: dict[tuple[Any, ...], Tensor] = field(default_factory=dict)
    same: dict[Tensor, Tensor] = field(default_factory=dict)
    small: dict[Tensor, Tensor] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.border = self.options.border(self.recipe)
        self.spans = {type: spans(self.source, self._spread, self._floor, type) for type in LIMITS}
        self.choices = {node: precision_of(node, self.recipe.of_node(node), self._limits) for node in self.source.nodes}
        self.choices |= {node: replace(self.choices[node], precision="float") for node in places(self.source)}
        self.choices |= {node: replace(self.choices[node], precision="float") for node in self._lost()}
        types = {node: choice.type for node, choice in self.choices.items() if choice.type != "FLOAT32"}
        self._producer = {t: node for node in self.source.nodes for t in node.outputs}
        loops = found(self.source) if self.options.loops else []
        self.looped = {self._producer[t] for loop in loops for node in loop.all_nodes for t in node.outputs}
        for row in (loop.node(0, at).input(0) for loop in loops for at in loop.picks):
            maker = self._producer.get(row)  # the product of the weights with the inputs of all steps, mostly
            maker = self._producer.get(maker.input(0)) if maker and maker.op == "RESHAPE" else maker
            self.looped |= {maker} if maker else set()
        self.groups = Groups(self.source, types, self._range, tie_scales(loops))

    def _lost(self) -> list[Node]:
        """Nodes whose results integers would lose, unless a rule of the recipe sets their precision."""
        free = [node for node in self.source.nodes if not self.recipe.sets_precision(node)]
        return [n for n in free if any(t in self.seen and self.choices[n].type in self.seen[t].lost for t in n.outputs)]

    def _range(self, tensor: Tensor, type: str) -> Range:
        """The range of a float tensor by the method that was chosen for it, where it is held in the type."""
        if tensor.data is not None:
            return self._cut(tensor, data_range(tensor), type)
        whole, node = self._observed(tensor), self._producer.get(tensor)
        choice = self.recipe.of_node(node) if node else self.recipe.of_input(tensor)
        own = choice.type if choice.type != "FLOAT32" else "INT8"
        seen, key = self.seen[tensor], (choice.method, own)
        if key not in seen.ranges:
            seen.ranges[key] = method(choice.method)(seen, own) if seen.count else whole
        return self._cut(tensor, seen.ranges[key], type)

    def _cut(self, tensor: Tensor, limits: Range, type: str) -> Range:
        """The range without what only SOFTMAX reads and takes for a mask, but with the value that stands for it."""
        least, most = self.spans[type].get(tensor, ENDLESS)
        below, above = self.seen[tensor].far if tensor in self.seen else (False, False)
        low = least if below else max(limits[0], min(least, 0.0))
        high = most if above else min(limits[1], max(most, 0.0))
        return low, high

    def _observed(self, tensor: Tensor) -> Range:
        """All that calibration has seen of a tensor, but for masks."""
        if tensor not in self.seen:
            raise InvalidArgumentError(f"calibration has not seen {tensor}: calibrate the graph that is quantised")
        seen = self.seen[tensor]
        return (seen.low, seen.high) if seen.count else (0.0, 0.0)

    def _spread(self, tensor: Tensor) -> Range | None:
        """Least and greatest value of a tensor with its masks, None if that is not known."""
        if tensor.data is not None:
            return data_range(tensor)
        seen = self.seen.get(tensor)
        if seen is None or not seen.count:
            return None
        return -math.inf if seen.far[0] else seen.low, math.inf if seen.far[1] else seen.high

    def _limits(self, tensor: Tensor, type: str) -> Range | None:
        """Least and greatest value of what a tensor stands for in the type, None if that is not known."""
        limits = self._spread(tensor)
        return None if limits is None else self._cut(tensor, limits, type)

    def _floor(self, node: Node, bits: int) -> float:
        """The value below which SOFTMAX or MAX_POOL_2D see nothing; -infinity if the input's range stays as it is."""
        seen = self.seen.get(node.input(0))
        if seen is None or not seen.count:
            return -math.inf
        if node.op == "MAX_POOL_2D":
            return seen.low if seen.far[0] else -math.inf
        floor = (0.0 if math.isinf(seen.peak) else seen.peak) - depth(node, bits)
        wide = max(seen.high, 0.0) - seen.low > WORTH * (max(seen.high, 0.0) - min(floor, 0.0))
        return floor if seen.far[0] or wide else -math.inf

    # -- tensors -------------------------------------------------------------------------------------------------------

    def input(self, tensor: Tensor) -> None:
        """A graph input, in the type of the border."""
        border = self.border
        if border == "LAYERS":
            readers = [self.choices[node].type for node in self.source.nodes if tensor in node.inputs]
            border = next((type for type in ("FLOAT32", "INT16") if type in readers), "INT8" if readers else "FLOAT32")
        kept = self.options.inference_type is None and tensor in self.seen and border in self.seen[tensor].lost
        if tensor.type == "FLOAT32" and border != "FLOAT32" and not kept:
            self._settle(tensor, replace(tensor, type=border, quant=self.groups.quant(tensor, border)))
        self.inputs.append(self.home.get(tensor, tensor))

    def _settle(self, tensor: Tensor, home: Tensor) -> Tensor:
        """Notes the form in which the tensor is computed."""
        self.home[tensor] = home
        self.forms[_key(tensor, home.type, home.quant)] = home
        return home

    def form(self, tensor: Tensor, type: str, quant: Quant | None = None) -> Tensor:
        """The tensor in that type and quantisation; adds a QUANTIZE or DEQUANTIZE if there is none yet."""
        key = _key(tensor, type, quant)
        home = self.home.get(tensor, tensor)
        if key not in self.forms and (home.type, home.quant) == (type, quant):
            self.forms[key] = home
        if key not in self.forms:
            name = f"{tensor.name}{SUFFIX[type]}"
            form = replace(tensor, name=name, type=type, quant=quant, data=None, extra=MappingProxyType({}))
            if tensor.data is not None:
                form = self._constant(tensor, form)
            else:
                op = "DEQUANTIZE" if type == "FLOAT32" else "QUANTIZE"
                self._append(Node(op, (home,), (form,), schema.default_options(op)))
            self.forms[key] = form
        return self.forms[key]

    def _constant(self, tensor: Tensor, form: Tensor) -> Tensor:
        quant = form.quant or Quant.per_tensor(1.0)
        data = to_integers(np.asarray(tensor.data), quant, *LIMITS[form.type]).astype(form.dtype)
        data.flags.writeable = False
        return replace(form, data=data)

    def _append(self, node: Node) -> None:
        self.nodes.append(replace(node, index=len(self.nodes)))

    # -- nodes ---------------------------------------------------------------------------------------------------------

    def node(self, node: Node) -> None:
        """Adds the node in its chosen precision."""
        choice = self.choices[node]
        if (ends := rounding(node)) is not None:
            return self._round(node, *ends)
        if choice.type == "FLOAT32":
            plain = replace(node, inputs=tuple(None if t is None else self._as_it_was(t) for t in node.inputs))
            made = dynamic(plain, choice.granularity != "tensor", self.small) if choice.precision == "dynamic" else None
            self._append(made or plain)
            return
        row, type = row_of(node), choice.type
        inputs: list[Tensor | None] = [None if t is None else self._as_it_was(t, type) for t in node.inputs]
        for i in row.scaled(node):
            quant = self.groups.quant(node.output if row.scales.same else node.input(i), type)
            inputs[i] = self.form(node.input(i), type, quant)
        if row.parameters is not None:
            self._parameters(node, row.parameters, choice, inputs)
        outputs = node.outputs if row.scales.indices else tuple(self._output(t, type) for t in node.outputs)
        integer = replace(node, inputs=tuple(inputs), outputs=outputs)
        if row.state is not None:
            integer = row.state.finish(integer, self._observed)
            self._begin(dict(zip(node.inputs, integer.inputs, strict=True)))
        options = {**node.options, "pot_scale_int16": False} if "pot_scale_int16" in node.options else node.options
        self._append(replace(integer, options=options))

    def _round(self, node: Node, value: Tensor, stored: Tensor) -> None:
        """A QUANTIZE or DEQUANTIZE of the float graph: its integers are a form of its floats."""
        key = _key(value, stored.type, stored.quant)
        if node.op == "DEQUANTIZE":
            self._settle(value, self.same.get(stored, stored))
        elif key in self.forms:
            self.same[stored] = self.forms[key]
        else:
            self._append(replace(node, inputs=(self.home.get(value, value),)))
            self.forms[key] = stored

    def _begin(self, states: Mapping[Tensor | None, Tensor | None]) -> None:
        """Operators that set a state of an operator before it runs set that of the integer one."""
        for i, node in enumerate(self.nodes):
            state = states.get(node.output) if node.outputs and node.output.variable else None
            if state is not None and state is not node.output:
                value = self.form(node.input(0), state.type, state.quant)
                self.nodes[i] = replace(node, inputs=(value, *node.inputs[1:]), outputs=(state,))

    def _as_it_was(self, tensor: Tensor, type: str = "FLOAT32") -> Tensor:
        """An input in the type that it has in the float graph."""
        if tensor in self.home and type == "FLOAT32":
            return self.form(tensor, "FLOAT32")
        return self.same.get(tensor, tensor)

    def _output(self, tensor: Tensor, type: str) -> Tensor:
        """The output in the quantisation of its group, or of its own range; the forms for readers come from it."""
        state = row_of(self._producer[tensor]).state
        alone = state is not None and state.own_scale
        quant = activation(self._range(tensor, type), type) if alone else self.groups.quant(tensor, type)
        return self._settle(tensor, replace(tensor, type=type, quant=quant))

    def _parameters(self, node: Node, at: Parameters, choice: Choice, inputs: list[Tensor | None]) -> None:
        """Puts weights and bias into ``inputs``."""
        bits = 4 if choice.precision == "int4" else 8
        per_channel = at.int4_axis or bits == 8 if choice.granularity is None else choice.granularity == "channel"
        if choice.granularity is None and choice.type == "INT8" and node in self.looped:
            per_channel = per_channel and math.prod(node.input(at.weights).shape) >= LEAST_ROW * at.channels(node)
        layer = Layer(node, at, bits, per_channel)
        position = row_of(node).first
        source = inputs[position]
        in_scale = source.scale if source is not None else 1.0
        quant = weight_quant(layer, in_scale)
        gram = self.options.grams.get(node)
        q = integers(layer, quant) if gram is None else adaptive(layer, quant, gram)
        bias = layer.biases()
        if self.options.bias_correction:
            bias = bias + correction(layer, quant, q, position, self.seen[node.input(position)])
        inputs[at.weights] = weight_tensor(layer, quant, q)
        if at.bias is not None:  # LiteRT refuses some convolutions without one, TFLM crashes on others
            inputs += [None] * (at.bias + 1 - len(inputs))
            inputs[at.bias] = bias_tensor(layer, bias, in_scale, quant, choice.type == "INT16")

    # -- the whole -----------------------------------------------------------------------------------------------------

    def graph(self) -> Graph:
        ends = {t: self._end(t) for t in dict.fromkeys((*self.source.outputs, *named_outputs(self.source)))}
        signatures = tuple(self._signature(s, ends) if s.subgraph == 0 else s for s in self.source.signatures)
        outputs = tuple(ends[t] for t in self.source.outputs)
        bare = replace(self.source, tensors=(), inputs=tuple(self.inputs), outputs=outputs, signatures=signatures)
        return rebuild(bare, self.nodes)

    def _end(self, tensor: Tensor) -> Tensor:
        if tensor.type != "FLOAT32" or tensor.data is not None:
            return self.same.get(tensor, tensor)
        if self.border == "LAYERS":
            return self.home.get(tensor, tensor)
        quant = None if self.border == "FLOAT32" else self.groups.quant(tensor, self.border)
        return self.form(tensor, self.border, quant)

    def _signature(self, signature: Signature, ends: Mapping[Tensor, Tensor]) -> Signature:
        inputs = {name: self.home.get(t, t) for name, t in signature.inputs.items()}
        return replace(signature, inputs=inputs, outputs={name: ends[t] for name, t in signature.outputs.items()})


def _key(tensor: Tensor, type: str, quant: Quant | None) -> tuple[Any, ...]:
    return (tensor, type) if quant is None else (tensor, type, quant.scale.tobytes(), quant.zero_point.tobytes())
