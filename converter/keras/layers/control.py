"""Loops and branches of ``keras.ops``: loops of a known number of steps are read step by step, of branches all are
computed and one is chosen."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import keras
import numpy as np

from twinfer.converter.keras.call import composed
from twinfer.runtime.errors import UnsupportedOperatorError

ops = keras.ops
tree = keras.tree

#: The most steps that a loop is written out for.
MOST = 256


def _steps(count: int) -> range:
    if count > MOST:
        raise UnsupportedOperatorError(f"a loop of {count} steps, of which at most {MOST} are written out; use tensors")
    return range(count)


def _known(value: Any) -> bool:
    return not any(isinstance(v, keras.KerasTensor) for v in tree.flatten(value))


def _choose(condition: Any, yes: Any, no: Any) -> Any:
    condition = ops.cast(condition, "bool")
    return tree.map_structure(lambda a, b: ops.where(condition, a, b), yes, no)


def cond(own: Any, pred: Any, true_fn: Callable[[], Any], false_fn: Callable[[], Any]) -> Any:
    if _known(pred):
        return true_fn() if bool(pred) else false_fn()
    return _choose(pred, true_fn(), false_fn())


def switch(own: Any, index: Any, branches: Sequence[Callable[..., Any]], *operands: Any) -> Any:
    """An index that is out of range means the nearest branch."""
    if _known(index):
        return branches[min(max(int(index), 0), len(branches) - 1)](*operands)
    y = branches[-1](*operands)
    for i in reversed(range(len(branches) - 1)):
        y = _choose(ops.less_equal(index, np.int32(i)), branches[i](*operands), y)
    return y


def fori_loop(own: Any, value: Any) -> Any:
    if not _known((own.lower, own.upper)):
        raise UnsupportedOperatorError("a number of steps that is an input; make it a number")
    for i in list(_steps(int(own.upper) - int(own.lower))):
        value = own.body_fun(int(own.lower) + i, value)
    return value


def while_loop(own: Any, values: Any) -> Any:
    """As long as the condition is known: it hangs on numbers that are no inputs. With a maximum of steps that is all,
    and the values stay as they are once the condition is false."""
    single = not isinstance(values, list | tuple)
    values = (values,) if single else tuple(values)
    running: Any = True
    for _ in _steps(MOST if own.maximum_iterations is None else int(own.maximum_iterations)):
        going = own.cond(*values)
        if _known(going):
            if not bool(going):
                return values[0] if single else values
        elif own.maximum_iterations is None:
            raise UnsupportedOperatorError("a condition on tensors; give maximum_iterations, or use fori_loop")
        after = own.body(*values)
        after = (after,) if not isinstance(after, list | tuple) else tuple(after)
        running = going if _known(going) or running is True else ops.logical_and(running, going)
        values = after if _known(going) else _choose(running, after, values)
    return values[0] if single else values


def _each(function: Callable[[Any], Any], xs: Any) -> Any:
    """The function of every part along the first dimension, stacked."""
    count = tree.flatten(xs)[0].shape[0]
    results = [function(tree.map_structure(lambda x, i=i: x[i], xs)) for i in _steps(count)]
    return tree.map_structure(lambda *parts: ops.stack(parts, axis=0), *results)


def scan(own: Any, f: Callable[[Any, Any], Any], init: Any, xs: Any = None) -> Any:
    count = own.length if xs is None else tree.flatten(xs)[0].shape[0]
    carry, results = init, []
    steps = list(_steps(count))
    for i in reversed(steps) if own.reverse else steps:
        carry, y = f(carry, None if xs is None else tree.map_structure(lambda x, i=i: x[i], xs))
        results.append(y)
    results = results[::-1] if own.reverse else results
    if all(y is None for y in results):
        return (carry,)
    return carry, tree.map_structure(lambda *parts: ops.stack(parts, axis=0), *results)


def associative_scan(own: Any, f: Callable[[Any, Any], Any], elements: Any) -> Any:
    """One step after the other."""
    axis = own.axis
    first = tree.flatten(elements)[0]
    count = first.shape[axis]
    parts = [
        tree.map_structure(lambda x, i=i: ops.take(x, np.arange(i, i + 1, dtype=np.int32), axis=axis), elements)
        for i in _steps(count)
    ]
    parts = parts[::-1] if own.reverse else parts
    sums = parts[:1]
    for part in parts[1:]:
        sums.append(f(sums[-1], part))
    sums = sums[::-1] if own.reverse else sums
    return tree.map_structure(lambda *each: ops.concatenate(each, axis=axis), *sums)


IMPORTERS = {
    f"ops.{name}": composed(function)
    for name, function in {
        "AssociativeScan": associative_scan,
        "Cond": cond,
        "ForiLoop": fori_loop,
        "Map": lambda own, f, xs: _each(f, xs),
        "Scan": scan,
        "Switch": switch,
        "VectorizedMap": lambda own, elements: _each(own.function, elements),
        "WhileLoop": while_loop,
    }.items()
}
