"""What the converter knows of an operator: the columns of the table of operators.

Every TFLite operator has one ``Row`` in ``converter/operators/<family>.py``. Quantisation, passes, the import of
integer ONNX graphs, equalisation, compression and versions read it; none of them has a list of operators of its own.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import Enum
from math import inf

import numpy as np
from numpy.typing import NDArray

from twinfer.converter.quantize.affine import Range
from twinfer.runtime.graph import Array, Node, Tensor

#: Scale and zero point.
Fixed = tuple[float, int]

#: A version of an operator, and whether a node needs it.
Need = tuple[int, Callable[[Node], bool]]

#: All inputs, however many there are.
ALL = None

#: Types of activations that an operator has integer kernels for.
INT8: tuple[str, ...] = ("INT8",)
INT8_AND_INT16: tuple[str, ...] = ("INT8", "INT16")


@dataclass(frozen=True)
class Parameters:
    """Constant weights and a bias.

    ``weights`` and ``bias`` are positions of inputs. ``axis`` is the axis of the weights that holds the output's
    channels; each of them may have a scale of its own. ``summed`` is the axis that holds the input's channels, over
    which an output sums; None where an output is no sum over one window of the input (TRANSPOSE_CONV).
    ``int4``: weights may be INT4; ``int4_axis``: also with one scale per channel. ``bias_optional``: every runtime runs
    the operator without its bias.
    """

    weights: int
    bias: int | None = None
    axis: int = 0
    summed: int | None = None
    int4: bool = False
    int4_axis: bool = True
    bias_optional: bool = False

    @property
    def depthwise(self) -> bool:
        """Whether every output channel reads one channel of the input only."""
        return self.axis == self.summed

    def channels(self, node: Node) -> int:
        return node.input(self.weights).shape[self.axis]


@dataclass(frozen=True)
class Scales:
    """What integer kernels ask of scales and zero points.

    ``same``: values and outputs share one quantisation. ``fixed8`` and ``fixed16``: the output has this one.
    ``least``: the least ratio of the output's range to an input's range, which counts times the greatest weight if
    there are weights (``squares``: to its square). Kernels refuse the multiplier of a smaller ratio. ``span``: the
    least range of an input that kernels take. ``indices``: the output holds indices or truth values. ``divisor``: the
    position of an input that must stay two steps away from 0, where kernels abort.
    ``imported``: an ONNX graph that states all scales gets the integer operator; without it, the operator stays float.
    """

    same: bool = False
    fixed8: Fixed | None = None
    fixed16: Fixed | None = None
    least: float = 0.0
    squares: bool = False
    span: float = 0.0
    indices: bool = False
    divisor: int | None = None
    imported: bool = False

    def fixed(self, type: str) -> Fixed | None:
        """The output's quantisation where activations have this type; None if it is free."""
        return self.fixed8 if type == "INT8" else self.fixed16


@dataclass(frozen=True)
class State:
    """A state from step to step or run to run, and how such an operator becomes an integer one.

    ``accepts``: whether a float node has an integer form. ``finish`` gets the node with quantised values and outputs,
    and a function from tensors to ranges; it returns the node with the rest quantised. ``streams``: the samples of
    calibration are parts of one stream; the state lasts from one to the next. ``own_scale``: the output keeps the scale
    of its own range, and is requantised where a reader needs another. ``history``: the position of a state of which a
    run shows the last value only, and what computes all its values from the node and input 0.
    """

    accepts: Callable[[Node], bool]
    finish: Callable[[Node, Callable[[Tensor], Range]], Node]
    streams: bool = False
    own_scale: bool = False
    history: tuple[int, Callable[[Node, Array], NDArray[np.float32]]] | None = None


class Moves(Enum):
    """How an operator moves elements that it does not change."""

    #: All of them, in their order: only the shape changes.
    RESHAPES = "reshapes"
    #: Some of them, or several times, or with others around them: nothing happens where the shape stays.
    KEEPS_PLACES = "keeps places"
    #: To other places.
    REORDERS = "reorders"


@dataclass(frozen=True)
class Dimensions:
    """What a change of the order of dimensions means to an operator that is not element-wise, but works in any order.

    ``rows``: positions of constants with one row per dimension. ``axes``: positions of constants that name dimensions.
    ``option``: the option "axis" names one. ``last``: the operator works along the last dimension, which stays last.
    """

    rows: tuple[int, ...] = ()
    axes: tuple[int, ...] = ()
    option: bool = False
    last: bool = False


@dataclass(frozen=True)
class Row:
    """All that the converter knows of one operator. A column that is not given means no: the operator stays as it is.

    Inputs:
    ``values``: positions of the inputs that carry values (ALL: every one).
    ``fill``: the position of a number that is put among the values. ``fills``: elements are added to the values.
    ``parameters``: constant weights and bias. ``hybrid``: positions of weights that may be int8 beside float values.

    Quantisation:
    ``types``: types of activations with integer kernels; none: the operator stays float.
    ``scales``: what these kernels ask of scales. ``state``: for operators with a state.

    Passes:
    ``moves``: how it moves elements, if it does no more. ``elementwise``: every element of the output is computed from
    those at the same place. ``dimensions``: for others that work in any order of dimensions. ``reduces``: input 1 names
    dimensions that vanish, or become 1 by the option "keep_dims". ``image``: the first value and the output are NHWC.
    ``fuses``: kernels heed the option "fused_activation_function". ``clamps``: a RELU, which is named as that option's
    value. ``padding``: what padding SAME puts around the values, "zero" or "least" (never more than any value).
    ``bytes``: it takes INT8, INT16 and UINT8 as plain numbers, too, not as quantised ones alone.
    ``magnifies``: the position of a value in which small differences may count much, as that of a logarithm.
    ``range``: of float results. ``zero_stays``: 0 becomes 0, and all elements of the first value are in the output.

    Versions:
    ``versions``: type of the first value -> least version of the operator; ``needs``: what else needs one.
    """

    values: tuple[int, ...] | None = (0,)
    fill: int | None = None
    fills: bool = False
    parameters: Parameters | None = None
    hybrid: tuple[int, ...] = ()
    types: tuple[str, ...] = ()
    scales: Scales = Scales()
    state: State | None = None
    moves: Moves | None = None
    elementwise: bool = False
    dimensions: Dimensions | None = None
    reduces: bool = False
    image: bool = False
    fuses: bool = False
    clamps: bool = False
    padding: str | None = None
    bytes: bool = False
    magnifies: int | None = None
    range: Range = (-inf, inf)
    zero_stays: bool = False
    versions: Mapping[str, int] = field(default_factory=dict)
    needs: tuple[Need, ...] = ()

    @property
    def first(self) -> int:
        """The position of the first input that carries values."""
        return 0 if self.values is ALL else self.values[0]

    def carrying(self, node: Node) -> list[int]:
        """Positions of the inputs that carry values and are there."""
        positions = range(len(node.inputs)) if self.values is ALL else self.values
        return [i for i in positions if node.optional(i) is not None]

    def scaled(self, node: Node) -> list[int]:
        """Positions of the inputs that are quantised as activations: values, and what is put among them."""
        return [*self.carrying(node), *(() if self.fill is None else (self.fill,))]


#: Of an operator that has no row.
UNKNOWN = Row()
