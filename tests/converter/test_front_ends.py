"""Messages of ``from_torch`` and ``from_keras`` without their packages; these tests do not need the packages."""

from __future__ import annotations

import importlib
import sys

import pytest

import twinfer


@pytest.mark.parametrize(("name", "module"), [("torch", "torch.export"), ("keras", "keras")])
def test_the_extra_is_named(name: str, module: str, monkeypatch: pytest.MonkeyPatch) -> None:
    home = importlib.import_module(f"twinfer.converter.{module}")
    monkeypatch.setattr(home, "find_spec", lambda package: None)
    with pytest.raises(twinfer.ToolError, match=rf"{name}.*pip install 'twinfer\[{name}\]'"):
        getattr(twinfer, f"from_{name}")("model")


def test_a_backend_of_keras_that_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    """TensorFlow is Keras's default; the message names the backends that are installed."""
    home = importlib.import_module("twinfer.converter.keras")
    monkeypatch.setitem(sys.modules, "keras", None)  # so that importing it fails
    for there, message in (("torch", "set KERAS_BACKEND=torch in"), ("", "install tensorflow, torch or jax")):
        monkeypatch.setattr(
            home, "find_spec", lambda package, there=there: package if package in ("keras", there) else None
        )
        with pytest.raises(twinfer.ToolError, match=message):
            twinfer.from_keras("model")
