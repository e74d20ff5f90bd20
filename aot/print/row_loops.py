"""Straight chains as C: loops over rows. A layer computes its next rows in a loop inside the loop of who reads them.

A chain is straight if it waits for nothing and each of its tensors has one reader there. ``kernels_c/run/chain.h`` runs
the other chains, in the same order.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from twinfer.aot.print.arguments import NO_SCRATCH, Arguments
from twinfer.aot.print.blocks import parameter
from twinfer.aot.print.literals import block_comment, braced, comment, identifier, wrapped
from twinfer.aot.print.part import declared, even, linear, params, used, variables, with_params, with_pointers
from twinfer.aot.print.place import code, tables
from twinfer.runtime.plan.by_rows.schedule import straight
from twinfer.runtime.plan.plan import Plan, Region
from twinfer.runtime.program import Chain, Fetch, Layer, Step


@dataclass(frozen=True)
class RowLoops:
    """Prints the straight chains of one plan; ``numbers`` are those of the layers in C.

    ``invoke`` gives the function that computes a layer: the specialised body of its kernel, or a shared instance. Lone
    layers with the same loop share it as a function; other layers with the same params in a part share their call.
    """

    plan: Plan
    name: str
    arguments: Arguments
    numbers: Mapping[Step, int]
    invoke: Callable[[Step], str]

    def symbol(self, chain: Chain) -> str:
        """The function that runs a chain."""
        first, last = chain.layers[0], chain.layers[-1]
        if first is last:
            return self.layer_symbol(first)
        return f"{self.name}_{self.numbers[first.step]}_to_{self.numbers[last.step]}"

    def text(self, chain: Chain, layer: Layer, about: Sequence[str]) -> str:
        """The functions of a layer, behind a comment ``about`` it; the last one's are followed by the chain's."""
        texts = [*self.shared_call(layer)]
        if len(chain.layers) == 1:
            texts += [*self._shared_loop(chain, layer), block_comment(about), self._loop_function(chain, layer)]
        else:
            texts += [block_comment(about), self._part_function(layer)]
            texts += [f"\n{self._nested(chain)}"] if layer is chain.layers[-1] else []
        return "\n".join(texts)

    def layer_symbol(self, layer: Layer) -> str:
        return f"{self.name}_{self.numbers[layer.step]}_{identifier(layer.step.node.op)}"

    # What layers share.

    @cached_property
    def _loops(self) -> Mapping[str, Sequence[Layer]]:
        """The text of a lone layer's loop -> the layers that have it. A layer of a longer chain is by itself."""
        loops: dict[str, list[Layer]] = {}
        for chain in dict.fromkeys(self.plan.chains.values()):
            for layer in chain.layers:
                alone = len(chain.layers) == 1 and straight(chain)
                text = "\n".join(self._loop(chain, layer, [*self._key(layer)])) if alone else self.layer_symbol(layer)
                loops.setdefault(text, []).append(layer)
        return loops

    @cached_property
    def _calls(self) -> Mapping[tuple[str, str], Sequence[Layer]]:
        """Function and params of a part -> the first layer of every loop that calls so."""
        calls: dict[tuple[str, str], list[Layer]] = {}
        for layers in self._loops.values():
            calls.setdefault(self._key(layers[0]), []).append(layers[0])
        return calls

    @cached_property
    def _params(self) -> Mapping[Layer, str]:
        """The params of every layer of a chain for some of its rows; printing all of them takes most of its time."""
        return {layer: params(layer) for chain in {*self.plan.chains.values()} for layer in chain.layers}

    def _key(self, layer: Layer) -> tuple[str, str]:
        return self.invoke(layer.step), self._params[layer]

    def _group(self, layer: Layer) -> Sequence[Layer]:
        """The layers that have this one's loop."""
        return next(layers for layers in self._loops.values() if layer in layers)

    def shared_call(self, layer: Layer) -> Iterator[str]:
        """The function for some rows of several layers, which stands before the first of them."""
        users = self._calls[self._key(layer)] if layer is self._group(layer)[0] else ()
        if len(users) < 2 or users[0] is not layer:
            return
        needed = [f"int32_t {name}" for name in used(self._params[layer])]
        parameters = ", ".join([*needed, "const void *const *in", "void *const *out", "void *scratch"])
        yield f"/* Some rows of layers {', '.join(str(self.numbers[user.step]) for user in users)} */"
        yield _function(
            f"{self._storage(users)} void {self._part_symbol(users)}({parameters})", self._own_call(layer, "scratch")
        )
        yield ""

    def _storage(self, layers: Sequence[Layer]) -> str:
        """The specifiers of a function of layers, which lies where the last one's code does."""
        return f"static TW_LAYER {code(self.name, self.numbers[layers[-1].step])}"

    def _part_symbol(self, users: Sequence[Layer]) -> str:
        return f"{self.name}_{self.numbers[users[0].step]}_part"

    def call(self, layer: Layer, scratch: str) -> list[str]:
        """The lines that compute some rows; their pointers are ``in`` and ``out``."""
        users = self._calls[self._key(self._group(layer)[0])]
        if len(users) < 2:
            return self._own_call(layer, scratch)
        return [f"{self._part_symbol(users)}({', '.join([*used(self._params[layer]), 'in', 'out', scratch])});"]

    def _own_call(self, layer: Layer, scratch: str) -> list[str]:
        section = tables(self.name, self.numbers[layer.step])
        *lines, call = with_params(layer, self._params[layer], self.invoke(layer.step), section)
        return [*lines, f"{call}{scratch});"]

    def _shared_loop(self, chain: Chain, layer: Layer) -> Iterator[str]:
        """The function with the loop of several layers, which stands before the first of them."""
        group = self._group(layer)
        if len(group) < 2 or group[0] is not layer:
            return
        parameters = "const void *const *inputs, void *const *outputs, void *scratch"
        head = f"{self._storage(group)} void {self._loop_symbol(group)}({parameters})"
        numbers = ", ".join(str(self.numbers[each.step]) for each in group)
        yield f"/* Layers {numbers}, row by row{', from the last to the first' * chain.backwards} */"
        yield _function(head, self._loop(chain, layer, self.call(layer, "scratch")))
        yield ""

    def _loop_symbol(self, group: Sequence[Layer]) -> str:
        return f"{self.name}_{self.numbers[group[0].step]}_rows"

    # A layer alone.

    def _loop_function(self, chain: Chain, layer: Layer) -> str:
        group, memory, scratch = self._group(layer), self.arguments.memory, self.scratch(layer)
        if len(group) > 1:
            lines = self.arguments.statements(layer.step.call, f"{self._loop_symbol(group)}(", scratch)
        else:
            sources = [memory.address(tensor) for _, tensor, _ in layer.sources]
            others = self.pointers(layer, dict.fromkeys([place for place, _, _ in layer.sources], ""))
            lines = self._loop(chain, layer, self.call(layer, scratch), sources, others, memory.address(layer.out))
        head = f"{self._storage([layer])} void {self.layer_symbol(layer)}({memory.parameters})"
        lines = [*self._before(chain), *lines]
        return _function(head, [*memory.unused(lines), *lines])

    def _before(self, chain: Chain) -> Iterator[str]:
        """The statements that bring what a chain needs."""
        for each in chain.before:
            yield self.arguments.fetch(each, self.name) if isinstance(each, Fetch) else f"{self.name}_wait();"

    def _loop(
        self,
        chain: Chain,
        layer: Layer,
        call: Sequence[str],
        sources: Sequence[str] = (),
        others: Sequence[str] = (),
        out: str = "(unsigned char *)outputs[0]",
    ) -> list[str]:
        """The loop over the rows of a lone layer around ``call``.

        ``sources`` are the addresses of what it reads by rows, ``others`` those of all its inputs, ``out`` that of its
        output; by default they are in arrays ``inputs`` and ``outputs``.
        """
        places = [place for place, _, _ in layer.sources]
        sources = sources or [f"(const unsigned char *)inputs[{place}]" for place in places]
        pointers = [*(others or [f"inputs[{i}]" for i in range(len(layer.step.call.inputs))])]
        values = dict(variables(layer))
        low = values["low"] if values["low"] == "y" else "low"
        for place, source, (_, tensor, height) in zip(places, sources, layer.sources, strict=True):
            pointers[place] = at_row(source, tensor.nbytes // height, low)
        inner = with_pointers([*call], arrays(pointers, at_row(out, layer.row_bytes, "y")))
        loop = _for(layer, "y", "end", values, inner, backwards=chain.backwards)
        # gcc unrolls a short loop around a mere call, with all of its params: 132 bytes of ic on M3.
        return loop if self.invoke(layer.step).endswith("_body") else ["TW_ROLLED", *loop]

    # Layers of a longer chain.

    def _part(self, layer: Layer) -> tuple[list[str], list[Region], list[str], list[str]]:
        """The lines of the function for some rows of a layer; blocks, variables and sources that it takes."""
        froms = ["from"] if len(layer.sources) == 1 else [f"from_{k}" for k in range(len(layer.sources))]
        moving = {place: source for (place, _, _), source in zip(layer.sources, froms, strict=True)}
        lines = with_pointers(self.call(layer, self.scratch(layer)), arrays(self.pointers(layer, moving), "to"))
        return lines, self.arguments.memory.used(lines), used("\n".join(lines)), froms

    def _part_function(self, layer: Layer) -> str:
        """The function for some rows of a layer."""
        lines, blocks, names, froms = self._part(layer)
        parameters = [*map(parameter, blocks), *(f"int32_t {name}" for name in names)]
        parameters += [*(f"const unsigned char *{source}" for source in froms), "unsigned char *to"]
        return _function(f"TW_INLINE void {self.layer_symbol(layer)}({', '.join(parameters)})", lines)

    def _nested(self, chain: Chain) -> str:
        """The function that runs a chain of several layers."""
        memory, starts, kept = self.arguments.memory, list[str](), list[str]()
        for layer in chain.layers[:-1]:
            n, ring = self.numbers[layer.step], chain.rings[layer.out]
            starts.append(f"int32_t y{n} = 0{f', first{n} = 0' * (ring.capacity < layer.height)};")
            rows = f'{ring.capacity} of {layer.height} rows of "{comment(layer.out.name)}"'
            first = f"; the first is row first{n}" * (ring.capacity < layer.height)
            kept.append(f"  {rows} {memory.span(ring.memory)}{first}")
        numbers = [self.numbers[layer.step] for layer in chain.layers]
        lines = [*self._before(chain), *starts, *self._rows_of(chain, chain.layers[-1], "")]
        head = f"{self._storage(chain.layers)} void {self.symbol(chain)}({memory.parameters})"
        about = block_comment([f"Layers {numbers[0]} to {numbers[-1]}, row by row", *kept])
        return f"{about}\n{_function(head, [*memory.unused(lines), *lines])}"

    def _rows_of(self, chain: Chain, layer: Layer, wanted: str) -> list[str]:
        """The loop that computes the rows of a layer up to ``wanted``, or all of the last one."""
        n, ring, memory = self.numbers[layer.step], chain.rings.get(layer.out), self.arguments.memory
        y, end = f"y{n}", f"end{n}"
        values = dict(variables(layer, y, f"{n}"))
        low = values[f"low{n}"] if values[f"low{n}"] == y else f"low{n}"
        high = f"high{n}" if "(" in values[f"high{n}"] else values[f"high{n}"]
        lines, froms = list[str](), list[str]()
        made = {each.out: each for each in chain.layers}
        for _, tensor, height in layer.sources:
            if tensor not in made:
                froms.append(at_row(memory.address(tensor), tensor.nbytes // height, low))
                continue
            source = made[tensor]
            lines += self._rows_of(chain, source, high)
            froms.append(self._row(chain, source, low))
        if ring and ring.capacity < layer.height:
            start, row, last = memory.address(ring.memory), layer.row_bytes, values[end] if even(layer) else end
            kept = at_row(start, row, f"({y} - {ring.kept} - first{n})")
            move = [f"memmove({start}, {kept}, {ring.kept * row});"] if ring.kept else []
            first = linear(y, 1, -ring.kept)
            lines += braced([*move, f"first{n} = {first};"], f"if ({last} - first{n} > {ring.capacity})")
        own = {"y": y, "end": values[end] if even(layer) else end, "low": low, "high": high}
        _, blocks, names, _ = self._part(layer)
        arguments = [*(block.value for block in blocks), *(own[name] for name in names), *froms]
        lines.append(f"{self.layer_symbol(layer)}({', '.join([*arguments, self._row(chain, layer, y)])});")
        return _for(layer, y, end, values, lines, wanted)

    def _row(self, chain: Chain, layer: Layer, row: str) -> str:
        """The address of a row of what a layer of a chain computes."""
        ring = chain.rings.get(layer.out)
        at = self.arguments.memory.address(ring.memory if ring else layer.out)
        moved = ring is not None and ring.capacity < layer.height
        return at_row(at, layer.row_bytes, f"({row} - first{self.numbers[layer.step]})" if moved else row)

    def pointers(self, layer: Layer, moving: Mapping[int, str]) -> list[str]:
        """The inputs of a layer's call, those at the places ``moving`` as given there."""
        inputs = enumerate(layer.step.call.inputs)
        return [moving[i] if i in moving else self.arguments.pointer(argument) for i, argument in inputs]

    def scratch(self, layer: Layer) -> str:
        step = layer.step
        return NO_SCRATCH if step.scratch is None else self.arguments.memory.address(step.scratch)


def _for(
    layer: Layer,
    y: str,
    end: str,
    values: Mapping[str, str],
    lines: Sequence[str],
    wanted: str = "",
    backwards: bool = False,
) -> list[str]:
    """The loop over the rows of a layer, ``y`` being the first of a part.

    ``values`` are expressions of other variables, defined in the loop as far as its ``lines`` need them. The loop goes
    over all rows, or ``backwards``, or from the value of ``y`` to ``wanted``.
    """
    needed = declared(values, lines)
    band, height = layer.band, layer.height
    step = f"{{}}{y}" if band == 1 else f"{y} {{}} {band}"
    if wanted:
        head = f"for (; {y} < {wanted}; {step.format('++' if band == 1 else '+=')})"
    elif not backwards:
        head = f"for (int32_t {y} = 0; {y} < {height}; {step.format('++' if band == 1 else '+=')})"
    elif even(layer):
        head = f"for (int32_t {y} = {height - band}; {y} >= 0; {step.format('--' if band == 1 else '-=')})"
    else:
        head = f"for (int32_t {end} = {height}; {end} > 0; {end} -= {band})"
        needed = [f"{y} = tw_max(0, {end} - {band})", *(each for each in needed if not each.startswith(f"{end} ="))]
    defined = [f"const int32_t {', '.join(needed)};"] if needed else []
    return braced([*defined, *lines], head)


def arrays(inputs: Sequence[str], output: str) -> list[str]:
    """The arrays of a call's pointers."""
    read = f"const void *const in[] = {{{wrapped(inputs, ' ' * 12).strip()}}};"
    return [*([read] if inputs else []), f"void *const out[] = {{{output}}};"]


def at_row(start: str, row_bytes: int, row: str) -> str:
    """The address of a row."""
    return f"{start} + {linear(row, row_bytes)}" if row_bytes else start


def _function(head: str, lines: Sequence[str]) -> str:
    return "\n".join(braced(lines, head))
