"""scikit-learn's conventions around a trained model, for pipelines and cross validation; scikit-learn may be absent."""

from __future__ import annotations

import os
from typing import Any, Self

import numpy as np

from twinfer.runtime.errors import InvalidArgumentError
from twinfer.runtime.graph import Array, Graph
from twinfer.runtime.run.interpreter import Interpreter


class Estimator:
    """A model with ``fit``, ``predict``, ``predict_proba``, ``score``: a step of a Pipeline, an argument of
    cross_val_score. It is trained already, so ``fit`` changes nothing.

    ``model``: a path, the content of a file, a Graph, an Interpreter or a compiled model; it has one input and one
    output. ``classes``: the labels of the output's values, which make it a classifier; None: it is a regressor. X is
    [N, ...] as in ``Interpreter.predict``, or [N, features], which are put into the input's shape.
    """

    def __init__(self, model: Any, classes: Any = None, workers: int | None = None) -> None:
        self.model, self.classes, self.workers = model, classes, workers

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        return {"model": self.model, "classes": self.classes, "workers": self.workers}

    def set_params(self, **params: Any) -> Self:
        if unknown := params.keys() - self.get_params().keys():
            raise InvalidArgumentError(f"no parameters {sorted(unknown)}; there are: model, classes, workers")
        for name, value in params.items():
            setattr(self, name, value)
        return self

    def fit(self, X: Any = None, y: Any = None) -> Self:
        """Nothing: the model is trained."""
        return self

    def __sklearn_is_fitted__(self) -> bool:
        return True

    def __sklearn_tags__(self) -> Any:
        from sklearn.utils import ClassifierTags, RegressorTags, Tags, TargetTags

        kinds = (
            {"classifier_tags": ClassifierTags()} if self.classes is not None else {"regressor_tags": RegressorTags()}
        )
        return Tags(self._estimator_type, TargetTags(required=False), **kinds)

    @property
    def _estimator_type(self) -> str:
        return "regressor" if self.classes is None else "classifier"

    @property
    def classes_(self) -> Array:
        if self.classes is None:
            raise AttributeError("a regressor has no classes_: give Estimator(model, classes=labels)")
        return np.asarray(self.classes)

    def _engine(self) -> Interpreter:
        if isinstance(self.model, Interpreter):
            return self.model
        if isinstance(self.model, Graph):
            return Interpreter.from_graph(self.model)
        by = "model_path" if isinstance(self.model, str | os.PathLike) else "model_content"
        return Interpreter(**{by: self.model})

    def _outputs(self, X: Any) -> Array:
        engine = self._engine()
        shape = [int(n) for n in engine.get_input_details(0)["shape"]]
        rows = np.asarray(X)
        if rows.ndim == 2 and len(shape) != 2 and rows.shape[1] == np.prod(shape[1:]):
            rows = rows.reshape(len(rows), *shape[1:])
        outputs = engine.predict(rows, workers=self.workers)
        if isinstance(outputs, list):
            raise InvalidArgumentError(f"the model has {len(outputs)} outputs: an Estimator needs one")
        return np.asarray(outputs).reshape(len(rows), -1)

    def predict_proba(self, X: Any) -> Array:
        """The output's values by class [N, classes]; of one value p, 1 - p and p."""
        values = self._outputs(X)
        if values.shape[1] == 1 and len(self.classes_) == 2:
            values = np.concatenate([1 - values, values], 1)
        if values.shape[1] != len(self.classes_):
            raise InvalidArgumentError(f"the model tells {values.shape[1]} classes apart, not {len(self.classes_)}")
        return values

    def predict(self, X: Any) -> Array:
        """The labels [N] of a classifier, the values [N] or [N, outputs] of a regressor."""
        if self.classes is not None:
            return np.asarray(self.classes_[self.predict_proba(X).argmax(1)])
        values = self._outputs(X)
        return values[:, 0] if values.shape[1] == 1 else values

    def score(self, X: Any, y: Any) -> float:
        """The accuracy of a classifier, R^2 of a regressor."""
        found, wanted = self.predict(X), np.asarray(y)
        if self.classes is not None:
            return float((found == wanted).mean())
        return float(1 - np.square(found - wanted).sum() / np.square(wanted - wanted.mean(0)).sum())

    def __repr__(self) -> str:
        return f"Estimator({self.model!r}, classes={self.classes!r}, workers={self.workers!r})"
