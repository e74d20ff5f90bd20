"""Pruning: weights of small magnitude become zero, one by one or in blocks, and the others are fitted to make up."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from twinfer.converter.compress.blocks import Block, block, budgets, mask, zeros
from twinfer.converter.compress.layers import Weights, layers_of, replace_weights
from twinfer.converter.compress.refit import Watch, can_fit
from twinfer.converter.quantize.calibrate import Progress
from twinfer.converter.quantize.recipe import Recipe
from twinfer.converter.quantize.samples import Samples
from twinfer.converter.table import layers as known_layers
from twinfer.runtime.errors import InvalidArgumentError
from twinfer.runtime.graph import Graph, Tensor

#: How the layers of the recipe's default sparsity share it: ranked together, or each by itself.
SCOPES = ("global", "layer")

#: Rounds of pruning and fitting, with ever fewer weights per round (Zhu & Gupta 2017, "To prune, or not to prune").
ROUNDS = 4

#: Sparsities that differ by less than this count as equal.
CLOSE = 1e-6


def prune(
    graph: Graph,
    recipe: Recipe,
    samples: Samples | None = None,
    scope: str = "global",
    progress: Progress | None = None,
) -> Graph:
    """The graph with weights set to zero in the layers that ``recipe`` names. Weights may be float or integers.

    ``scope`` is about layers of the recipe's default sparsity: with "global" they reach it together, ranked by
    ``blocks.budgets``; with "layer" each reaches it alone. A layer with a sparsity of its own always reaches that
    alone. At least the share that was asked for becomes zero, by the fewest blocks. With ``samples`` (by input name,
    kept in memory) the weights that are left and the biases are fitted so that the layers' outputs stay as they were.
    That includes unpruned layers behind the first pruned one. Layers that ``refit.can_fit`` rejects are pruned without
    fitting.

    ``progress(done, total)`` counts fitted layers. InvalidArgumentError for nothing to prune, for a scope that is not
    known, for N:M blocks with another sparsity than theirs, and for samples that do not fit.
    """
    layers = layers_of(graph)
    plan = plan_zeros(layers, recipe, scope)
    if samples is None:
        kept = {w: mask(np.square(w.values()), count, _block(w, recipe)) for w, count in plan.items()}
        return replace_weights(graph, {w.tensor: w.changed(w.stored() * where) for w, where in kept.items()})
    watch, pruned = Watch(graph, samples), graph
    behind = layers[layers.index(next(iter(plan))) :]
    for i, weights in enumerate(behind, 1):
        pruned = replace_weights(pruned, _fitted(watch, pruned, weights, plan.get(weights, 0), _block(weights, recipe)))
        if progress is not None:
            progress(i, len(behind))
    return pruned


def plan_zeros(layers: Sequence[Weights], recipe: Recipe, scope: str) -> dict[Weights, int]:
    """How many weights of each layer become zero."""
    if scope not in SCOPES:
        raise InvalidArgumentError(f"{scope!r} is no scope of pruning; there are: {', '.join(SCOPES)}")
    shares = dict[Weights, float]()
    for weights in layers:
        choice = recipe.of_node(weights.node)
        fixed = block(choice.prune_block).sparsity
        if choice.prune and fixed is not None and abs(choice.prune - fixed) > CLOSE:
            what = f"{choice.prune_block} makes {fixed:g} of the weights zero, not {choice.prune:g}"
            raise InvalidArgumentError(f"{weights.node}: {what}; prune by {fixed:g}")
        if choice.prune:
            shares[weights] = choice.prune
    if not shares:
        raise InvalidArgumentError(
            f"nothing to prune: the recipe names no layer with constant weights ({', '.join(known_layers())})"
        )
    plan = {w: zeros(share, w.tensor.size) for w, share in shares.items()}
    together = [w for w, s in shares.items() if s == recipe.default.prune and _block(w, recipe).keep is None]
    if scope == "global" and together:
        squares = [(np.square(w.values()), _block(w, recipe)) for w in together]
        total = zeros(recipe.default.prune, sum(w.tensor.size for w in together))
        plan.update(zip(together, budgets(squares, total), strict=True))
    return plan


def _block(weights: Weights, recipe: Recipe) -> Block:
    return block(recipe.of_node(weights.node).prune_block)


def _fitted(watch: Watch, graph: Graph, weights: Weights, count: int, shape: Block) -> dict[Tensor, Tensor]:
    """The layer's weights with ``count`` zeros, and its bias, both fitted; where that is impossible, the weights alone.

    A weight that was zero stays zero.
    """
    values = weights.values()
    if not can_fit(weights):
        kept = mask(np.square(values), count, shape)
        return {weights.tensor: weights.changed(weights.stored() * kept)} if count else {}
    fitting = watch.fitting(graph, weights)
    rows, schedule = fitting.rows, [count]  # how many weights are zero after every round
    if shape.keep is None and count:  # patterns of N:M take one round
        schedule = [round(count * (1 - (1 - i / ROUNDS) ** 3)) for i in range(1, ROUNDS + 1)]
    for done in schedule:
        kept = mask(np.square(fitting.shaped(rows)), done, shape).reshape(rows.shape)
        rows = fitting.fit.rows(kept & (fitting.rows != 0))
    return fitting.stored(rows, fitting.widened(rows))
