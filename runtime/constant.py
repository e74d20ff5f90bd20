"""Constants of a plan: values with a role, a name and an origin. No value is stored twice."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from twinfer.runtime.graph import Array, Graph, Node, Tensor, walk


class Role(Enum):
    """What a constant is to the kernel that reads it. The value is the word in comments and C symbols."""

    WEIGHTS = "weights"
    BIAS = "bias"  # what sums start from
    CHANNELS = "channels"  # bias, multiplier and shift of a channel, together
    MULTIPLIERS = "multipliers"  # of scales in fixed point, int32
    SHIFTS = "shifts"  # of scales in fixed point, int8
    SCALES = "scales"  # in floating point
    SUMS = "sums"  # of weights, for the zero point of what they are multiplied by
    TABLE = "table"  # looked up by a value
    INDEX = "index"  # shapes, axes, positions, and what padding holds
    CODES = "codes"  # weights, coded
    QUANT = "quant"  # params that depend on scales and zero points
    PAGE = "page"  # all that one fetch brings


@dataclass(frozen=True, eq=False)
class Constant:
    """A constant array and what is known of it. Two constants are the same only if they are one object.

    ``layout`` says in words how the array is packed, "" if it lies as in the model. ``tensor`` is the tensor of that
    value, None if the array was packed. ``name`` says in comments what it is.
    """

    array: Array
    role: Role
    layout: str = ""
    tensor: Tensor | None = None
    name: str = ""

    @property
    def nbytes(self) -> int:
        return int(self.array.nbytes)


def weights(array: Array, layout: str = "") -> Constant:
    """Weights as a kernel reads them; ``layout`` says how they are packed."""
    return Constant(array, Role.WEIGHTS, layout)


def bias(array: Array, layout: str = "") -> Constant:
    """Values that sums start from, one per channel; ``layout`` says what lies beside them."""
    return Constant(array, Role.BIAS, layout)


def per_channel(array: Array, layout: str) -> Constant:
    """Bias, multiplier and shift of every channel, together; ``layout`` says how they lie."""
    return Constant(array, Role.CHANNELS, layout)


def requantize(array: Array, layout: str = "") -> Constant:
    """Multipliers (int32), shifts (int8) or scales (float) per channel."""
    by_size = {4: Role.MULTIPLIERS, 1: Role.SHIFTS}
    return Constant(array, by_size[array.itemsize] if array.dtype.kind == "i" else Role.SCALES, layout)


def sums_of_weights(array: Array) -> Constant:
    """Sums of weights per channel."""
    return Constant(array, Role.SUMS)


def table(array: Array) -> Constant:
    """A table that values are looked up in."""
    return Constant(array, Role.TABLE)


def index(array: Array) -> Constant:
    """Shapes, axes or positions."""
    return Constant(array, Role.INDEX)


#: Roles of what is computed from a node's scales, whatever input is at the same place.
_OF_SCALES = (Role.MULTIPLIERS, Role.SHIFTS, Role.SCALES, Role.SUMS, Role.TABLE)

#: Where a constant comes from: what it is used as, then the numbers of the model's constants that it is made from.
Sources = tuple[object, ...]


class Pool:
    """All constants of a plan. Equal content is one constant if it comes from the same constants of the model.

    So weights that are used twice, and two tables for equal scales, are stored once. Two biases that happen to be equal
    are stored twice: a model that is trained anew must lead to the same code.
    """

    def __init__(self, graph: Graph) -> None:
        self._numbers = _numbers(graph)
        self._constants: dict[tuple[str, int, Sources], list[Constant]] = {}

    def value(self, tensor: Tensor, role: Role = Role.WEIGHTS) -> Constant:
        """A constant tensor as the model has it; RuntimeError for one that is no constant."""
        if tensor.data is None:
            raise RuntimeError(f"{tensor} is no constant")
        constant = Constant(tensor.data, role, tensor=tensor, name=f'"{tensor.name}"')
        return self._shared(constant, ("tensor", self._numbers.setdefault(tensor, len(self._numbers))))

    def packed(self, constant: Constant, node: Node, use: object) -> Constant:
        """The shared constant for one that was packed for ``node``; ``use`` is its place among the inputs, or a name.

        If it has no name, it is named after the node's constant input at that place, or after the node.
        """
        name = constant.name or f"{constant.role.value} of {_origin(constant.role, node, use)}"
        numbers = (self._numbers[t] for t in node.inputs if t is not None and t.data is not None)
        return self._shared(
            Constant(constant.array, constant.role, constant.layout, constant.tensor, name), (use, *numbers)
        )

    def _shared(self, constant: Constant, sources: Sources) -> Constant:
        array = constant.array
        known = self._constants.setdefault((array.dtype.str, array.size, sources), [])
        for other in known:  # hardly ever any: bytes need not be hashed
            if other.array is array or other.array.tobytes() == array.tobytes():
                return other
        known.append(constant)
        return constant


def _origin(role: Role, node: Node, use: object) -> str:
    """What a constant is made of: the constant input at the place ``use``, else the node."""
    tensor = node.optional(use) if isinstance(use, int) and role not in _OF_SCALES else None
    if tensor is None or tensor.data is None:
        return f"operator {node.index} {node.op}"
    return f'"{tensor.name}"'


def _numbers(graph: Graph) -> dict[Tensor, int]:
    """A number for every constant tensor; those that share their memory, as the model's file says, have the same."""
    by_address: dict[int, int] = {}
    graphs = tuple(walk(graph))
    used = [t for each in graphs for node in each.nodes for t in node.inputs if t is not None]
    listed = [t for each in graphs for t in (*each.tensors, *each.outputs)]
    tensors = dict.fromkeys(t for t in (*listed, *used) if t.data is not None)
    return {t: by_address.setdefault(_address(t), len(by_address)) for t in tensors}


def _address(tensor: Tensor) -> int:
    return int(tensor.data.ctypes.data) if tensor.data is not None else 0
