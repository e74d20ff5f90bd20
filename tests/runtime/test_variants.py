"""Variants: which one an operator gets on a target, why others decline, and that a file is all a new one takes."""

from __future__ import annotations

import pkgutil
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from cases import cases_of, graph_of

from twinfer.runtime import registry
from twinfer.runtime.graph import Node
from twinfer.runtime.op import tensor
from twinfer.runtime.ops import conv
from twinfer.runtime.ops.conv import conv2d
from twinfer.runtime.ops.core.layer_cases import Layer
from twinfer.runtime.ops.files import OPERATORS, may_serve
from twinfer.runtime.passes.unsigned import make_node_signed
from twinfer.runtime.plan.lower import lower_node
from twinfer.runtime.plan.make import make_plan
from twinfer.runtime.registry import operators, variants
from twinfer.runtime.run.session import Session
from twinfer.runtime.target import (
    AVX2,
    AVX512_VNNI,
    AVX_VNNI,
    DSP,
    GENERIC,
    HOST,
    MVE,
    NEON_I8MM,
    REFERENCE,
    SIMD128,
    TARGETS,
    TILES,
    Choice,
    Target,
    computer,
)
from twinfer.runtime.variant import Variant

#: Prints what a process imports that plans a model for this computer.
IMPORTED = """
import sys
from twinfer import Interpreter
Interpreter(model_path=sys.argv[1]).allocate_tensors()
print(*(name for name in sys.modules if name.startswith("twinfer.runtime.ops.")))
"""

SERVED = [name for name in operators() if variants(name)]


def conv_node(layer: Layer | None = None, groups: int = 1, **options: int) -> Node:
    shapes = (1, 5, 5, 4), (8, 3, 3, 4 // groups)
    return conv2d._case(np.random.default_rng(3), *shapes, layer, **options).node


def kernel(node: Node, target: Target) -> str:
    return lower_node(node, target)[0].kernel


def test_names_of_files_tell_what_variants_need() -> None:
    """All of a file's variants need what its name says: else some would be missing where it is not read."""
    named = [file for file in registry._files() if registry.needed(file)]
    assert len(named) > 10
    for file in named:
        assert not registry._rows(file, "OP"), file
        for variant in registry._rows(file, "VARIANT"):
            assert registry.needed(file) <= variant.needs, f"{file}: {variant}"


@pytest.mark.parametrize("file", registry._files())
def test_the_table_of_files_is_right(file: str) -> None:
    """Of files that runtime/ops/files.py lacks nothing is asked: every model imports them."""
    own, rows = [op.name for op in registry._rows(file, "OP")], registry._rows(file, "VARIANT")
    assert [*OPERATORS.get(file, own)] == own, f'write "{file}": {own} into OPERATORS'
    for name in (name for row in rows for name in (*row.ops, *row.also)):
        assert may_serve(file, name), f'write "{file}": ["{name}"] into ALSO'
    assert not rows or not all(may_serve(file, name) for name in operators()), "it is called after no operator's file"


def test_a_model_imports_the_files_of_its_operators(tmp_path: Path) -> None:
    path = tmp_path / "conv.tflite"
    graph_of(conv_node()).save(path)
    ran = subprocess.run([sys.executable, "-c", IMPORTED, path], check=True, capture_output=True, text=True)
    imported = {name.removeprefix("twinfer.runtime.ops.") for name in ran.stdout.split()} & {*registry._files()}
    assert "conv.conv2d" in imported
    assert not [file for file in imported if registry.needed(file) or file.startswith(("pool.", "recurrent.", "move."))]
    assert len(imported) < 10


@pytest.mark.parametrize("op", SERVED)
def test_every_variant_is_taken(op: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """By some case, on some target, so that the tests of cases try it; and the plain one, too."""
    names = {variant.lower: f"{variant.lower.__module__}.{variant.lower.__name__}" for variant in variants(op)}
    apart = tuple(replace(variant, name=names[variant.lower]) for variant in variants(op))
    monkeypatch.setattr(registry, "variants", lambda _, target: [row for row in apart if target.has(*row.needs)])
    nodes = [make_node_signed(case.node) for case in cases_of(op).values()]
    taken = {lower_node(node, target)[1].variant for node in nodes for target in TARGETS}
    assert taken >= {*names.values(), "plain"}


def test_the_best_that_the_target_has() -> None:
    kernels = {target.name: kernel(conv_node(), target) for target in TARGETS}
    assert kernels == {
        HOST.name: "tw_conv2d_wide_s8", AVX_VNNI.name: "tw_conv2d_avx_vnni_s8",
        GENERIC.name: "tw_conv2d_winograd_words_s8", AVX2.name: "tw_conv2d_avx2_s8",
        AVX512_VNNI.name: "tw_conv2d_wide_s8", NEON_I8MM.name: "tw_conv2d_wide_s8",
        SIMD128.name: "tw_conv2d_simd128_s8",
        TILES.name: "tw_conv2d_winograd_tiles_s8",
        DSP.name: "tw_conv2d_winograd_dsp_s8", MVE.name: "tw_conv2d_band_mve_s8",
        REFERENCE.name: "tw_conv2d_reference_s8",
    }  # fmt: skip
    both = computer("both", "avx_vnni", "avx512_vnni")
    assert kernel(conv_node(), both) == "tw_conv2d_wide_s8", "512 bits are better than 256"


def test_one_that_declines_says_why() -> None:
    call, choice = lower_node(conv_node(groups=2), DSP)
    assert call.kernel == "tw_conv2d_groups_dsp_s8"
    names = ("winograd_dsp", "halves_dsp", "sparse_dsp", "dsp")
    assert choice == Choice("dsp", tuple((name, "it has 2 groups") for name in names))
    call, choice = lower_node(conv_node(dilation_w_factor=2), MVE)
    few = "0% of its blocks of 4 x 4 weights are zero, fewer than 50%"
    assert call.kernel == "tw_conv2d_groups_mve_s8"
    assert choice == Choice("mve", (("sparse_mve", few), ("mve", "the window is dilated along its rows")))


def test_one_that_serves_two_features_is_asked_once() -> None:
    call, choice = lower_node(conv_node(groups=2), computer("both", "avx_vnni", "avx512_vnni"))
    assert call.kernel == "tw_conv2d_s8"
    few = "its groups have 2 channels, no multiple of 4"
    said = "it has 2 groups"
    names = ("winograd_wide", "sparse_wide", "wide", "avx_vnni")
    assert choice.declined == (*((name, said) for name in names), ("wide", few))


def test_one_that_serves_an_operator_beside_declines_without_a_word() -> None:
    """CONV_2D's kernels serve a depthwise convolution of one channel, behind its own; of others they say nothing."""
    nodes = [case.node for case in cases_of("DEPTHWISE_CONV_2D").values() if case.node.input(0).type == "INT8"]
    call, choice = lower_node(next(node for node in nodes if node.input(0).shape[3] == 1), MVE)
    declined = tuple((name, "it has one input channel") for name in ("planes_mve", "mve"))
    assert (call.kernel, choice) == ("tw_conv2d_band_mve_s8", Choice("mve", declined))
    wider = next(node for node in nodes if node.input(0).shape[3] == node.output.shape[3] > 1)
    assert lower_node(wider, computer("both", "avx_vnni", "avx512_vnni"))[1] == Choice("vnni")


def test_types_are_not_asked_in_vain() -> None:
    """A variant for int8 does not decline float: it is not asked."""
    assert dict(lower_node(conv_node(Layer("FLOAT32")), DSP)[1].declined) == {"hybrid_dsp": "weights are float"}


def test_needs_are_known() -> None:
    for needs in ({"sse9"}, set()):
        with pytest.raises(RuntimeError, match="the variant x must need some of reference, mve"):
            Variant("x", ("CONV_2D",), frozenset(needs), conv2d.lower)


#: Everything that an instruction set of CONV_2D takes in Python.
FILE = """
from twinfer.runtime.ops.conv import conv2d
from twinfer.runtime.variant import Variant, accept

def lower(node, target):
    accept(node.input(1).shape[0] == 8, "not 8 channels")
    return conv2d.lower(node, target)

VARIANT = Variant("new", ("CONV_2D",), frozenset({"avx_vnni"}), lower)
"""

#: Everything that an operator takes in Python, beside its row in the converter; its kernel is that of HARD_SWISH.
OPERATOR = """
from twinfer.runtime.op import Op
from twinfer.runtime.ops.functions.hard_swish import infer, lower, reference

OP = Op("NEW_OPERATOR", infer, reference, lower, lambda rng: iter(()))
"""


@pytest.fixture
def new_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    (tmp_path / "aaa_new.py").write_text(FILE)
    (tmp_path / "aaa_operator.py").write_text(OPERATOR)
    monkeypatch.setattr(conv, "__path__", [*conv.__path__, str(tmp_path)])
    registry.forget_known()
    yield
    monkeypatch.undo()
    for name in ("aaa_new", "aaa_operator"):
        sys.modules.pop(f"{conv.__name__}.{name}", None)
    registry.forget_known()


@pytest.mark.usefixtures("new_files")
def test_a_file_is_all_that_a_variant_takes() -> None:
    assert "aaa_new" in {module.name for module in pkgutil.iter_modules(conv.__path__)}
    assert lower_node(conv_node(), AVX_VNNI)[1].variant == "new"
    assert lower_node(conv_node(), HOST)[1].variant == "wide"


@pytest.mark.usefixtures("new_files")
def test_a_file_is_all_that_an_operator_takes() -> None:
    x, y = tensor((3,), name="x"), tensor((3,), name="y")
    session = Session(make_plan(graph_of(Node("NEW_OPERATOR", (x,), (y,), {})), HOST))
    session.feed([np.array([-4, 0, 4], np.float32)])
    session.run()
    assert session.outputs()[0].tolist() == [0, 0, 4]


def test_nothing_is_asked_where_nothing_is_offered() -> None:
    relu = Node("RELU", (tensor((3,), name="x"),), (tensor((3,), name="y"),), {})
    assert variants("RELU") == ()
    assert lower_node(relu, MVE)[1] == Choice()
