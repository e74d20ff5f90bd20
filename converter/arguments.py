"""The arguments of ``convert``: their names, which of them need others, and the recipe that they make."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from numbers import Integral, Real
from types import UnionType
from typing import Any, TypedDict, Union, get_args, get_origin, get_type_hints

from twinfer.converter.passes import Pass
from twinfer.converter.quantize.calibrate import Progress
from twinfer.converter.quantize.recipe import Choice, Recipe, Rule, read_recipe
from twinfer.converter.quantize.samples import Samples, need_to_last
from twinfer.converter.source import Shapes
from twinfer.converter.table import layers
from twinfer.runtime.errors import InvalidArgumentError
from twinfer.runtime.graph import Graph
from twinfer.runtime.target import Target

#: What ``quantize=`` may be.
MODES = ("int8", "int16x8", "int4", "dynamic", "auto")

#: Arguments of ``quantize="auto"``.
_OF_AUTO = ("max_loss", "min_snr", "cost")


#: Arguments that need ``quantize=``, and their defaults.
_OF_QUANTISATION: dict[str, Any] = {
    "method": "minmax", "inference_type": None, "bias_correction": False, "adaptive_rounding": False, "equalize": False,
    "refine": False, "target": None,
}  # fmt: skip


class How(TypedDict, total=False):
    """The arguments of ``convert`` beside the source."""

    quantize: str | None
    calibration: Samples | None
    method: str
    recipe: Recipe | str | os.PathLike[str] | None
    inference_type: str | None
    max_loss: float | None
    min_snr: float | None
    cost: str | None
    target: Target | None
    bias_correction: bool
    adaptive_rounding: bool
    equalize: bool
    refine: bool
    shapes: Shapes | None
    constants: Mapping[str, Any] | None
    prune: float | None
    prune_block: str | None
    prune_scope: str | None
    cluster: int | None
    compensate: bool
    channels_last: bool | Sequence[str]
    passes: Sequence[Pass] | None
    after: Callable[[str, Graph], None] | None
    progress: Progress | None
    loops: bool
    store_plan: bool


def only_known(given: Mapping[str, Any], arguments: type[Any]) -> None:
    """Raises InvalidArgumentError for an argument that the TypedDict ``arguments`` lacks or gives another type. Type
    checkers see such faults; Python does not."""
    if unknown := sorted(set(given) - set(arguments.__annotations__)):
        raise InvalidArgumentError(
            f"there is no argument {unknown[0]!r}; there are: {', '.join(arguments.__annotations__)}"
        )

    for name, hint in get_type_hints(arguments).items():
        if name in given and not _fits(given[name], hint):
            what = type(given[name]).__name__
            raise InvalidArgumentError(f"{name} cannot be of type {what}; it may be: {getattr(hint, '__name__', hint)}")


def _fits(value: object, hint: Any) -> bool:
    """Whether a value has the type. Only the outermost type is checked; NumPy's numbers are numbers."""
    members = get_args(hint) if get_origin(hint) in (Union, UnionType) else (hint,)
    numbers = {int: Integral, float: Real}
    kinds = [numbers.get(kind, get_origin(kind) or kind) for kind in members]
    return Any in kinds or isinstance(value, tuple(kinds))


def check(how: How, recipe: Recipe) -> None:
    """Raises InvalidArgumentError for arguments without the others that they need."""
    mode, calibration, compensate = how.get("quantize"), how.get("calibration"), how.get("compensate")
    compresses = recipe.prunes or recipe.clusters
    if mode and calibration is None and (mode == "auto" or recipe.types):
        raise InvalidArgumentError(
            "quantize needs samples of the inputs to calibrate with: calibration=… (by input name), or "
            "--calibration FILE on the command line"
        )
    useless = (calibration is not None and not compensate) or (how.get("recipe") is not None and not compresses)
    if not mode and (useless or any(how.get(name, plain) != plain for name, plain in _OF_QUANTISATION.items())):
        names = f"calibration, recipe, {', '.join(_OF_QUANTISATION)}"
        raise InvalidArgumentError(f"{names} mean nothing without quantize=… (--quantize on the command line)")
    if mode != "auto" and any(how.get(name) is not None for name in _OF_AUTO):
        raise InvalidArgumentError(f"{', '.join(_OF_AUTO)} mean nothing without quantize='auto' (--quantize auto)")
    tried = ("bias_correction", "adaptive_rounding", "refine")
    if mode == "auto" and any(how.get(name) for name in tried):
        raise InvalidArgumentError(f"quantize='auto' tries what {', '.join(tried)} do itself: leave them out")
    if mode == "auto" and calibration is not None:
        need_to_last(calibration)
    if not recipe.prunes and (how.get("prune_block") or how.get("prune_scope")):
        raise InvalidArgumentError(
            "prune_block and prune_scope mean nothing without prune=… (--prune) or a recipe that prunes"
        )
    if compensate and not compresses:
        raise InvalidArgumentError("compensate means nothing without prune=… (--prune) or cluster=… (--cluster)")
    if compensate and calibration is None:
        raise InvalidArgumentError(
            "compensate fits weights to calibration data: give calibration=… (--calibration FILE)"
        )
    if compensate and calibration is not None:
        need_to_last(calibration)


def _base(mode: str | None) -> str:
    return "int8" if mode in (None, "auto") else mode


def recipe_of(how: How) -> Recipe:
    """The recipe; its default comes from the other arguments."""
    mode, given = how.get("quantize"), how.get("recipe")
    if mode is not None and mode not in MODES:
        raise InvalidArgumentError(f"cannot quantise to {mode!r}; there are: {', '.join(MODES)}")
    default = given.default if isinstance(given, Recipe) else Choice(_base(mode), None, how.get("method", "minmax"))
    asked: dict[str, Any] = {key: how.get(key) for key in ("prune", "prune_block", "cluster")}
    default = replace(default, **{key: value for key, value in asked.items() if value is not None})
    if isinstance(given, Recipe):
        recipe = replace(given, default=default)
    else:
        recipe = Recipe(default=default) if given is None else read_recipe(given, default)
    if not how.get("prune"):
        return recipe
    # Layers that ``prune=`` leaves alone: they have few weights, and each matters to a whole channel.
    spared = tuple(Rule(operator=op, prune=0.0) for op, at in layers().items() if at.depthwise)
    return replace(recipe, rules=(*spared, *recipe.rules))
