"""Sizes from the linked ELF: every byte is accounted for, in the group that it belongs to."""

from __future__ import annotations

import re
from dataclasses import replace
from itertools import product
from typing import Any

import numpy as np
import pytest
import tiny
from needs import deep_but

from twinfer.aot.build.sizes import _WORDS, WEIGHTS, Sizes, Symbol, _groups, image, sizes
from twinfer.aot.build.targets import Card, find
from twinfer.aot.print.emit import Project, emit
from twinfer.bench.models.builtin import builtin
from twinfer.bench.models.source import load
from twinfer.converter.build import Builder
from twinfer.runtime.constant import Constant, Role
from twinfer.runtime.options import Coding, Decoding, Mode, Options
from twinfer.runtime.plan.make import make_plan
from twinfer.runtime.target import TARGETS
from twinfer.runtime.tools import run_tool

pytestmark = pytest.mark.usefixtures("board_tools")

M4 = find("cortex-m4")
MODES = pytest.mark.parametrize("mode", ["compiled", "interpreted"])

#: Bytes of code of TFLM's smallest build with CMSIS-NN for each model, all -Os, and weights + biases + 5 B per channel.
PEER = {
    "mlp_kws_int8": (45_448, 27_316),
    "mlp_vww_int8": (45_448, 232_762),
    "mlp_ic_int8": (42_584, 80_482),
    "mlp_ad01_int8": (22_264, 270_880),
}


def project(name: str, core: str, mode: Mode) -> Project:
    graph = tiny.MODELS[name]().graph if name in tiny.MODELS else builtin()[name]()
    return emit(make_plan(graph, find(core).target).printed(mode=mode), name)


def section_bytes(emitted: Project, card: Card) -> dict[str, int]:
    """What ``size`` says of the image, by section."""
    listed = run_tool([f"{card.binutils}size", "-A", str(image(emitted, card))])
    rows = [line.split() for line in listed.splitlines()[2:] if line.startswith(".")]
    return {name: int(size) for name, size, _ in rows}


@pytest.mark.parametrize(
    ("name", "core", "mode"),
    deep_but(
        product([*tiny.MODELS, "kws_int8", "kws_float32"], ["cortex-m0", "cortex-m4"], ["compiled", "interpreted"]),
        ("kws_int8", "cortex-m4", "compiled"), ("kws_float32", "cortex-m4", "compiled"),
        ("kws_int8", "cortex-m4", "interpreted"), ("conv", "cortex-m0", "compiled"),
    ),
)  # fmt: skip
def test_every_byte_is_accounted_for(name: str, core: str, mode: Mode) -> None:
    emitted, card = project(name, core, mode), find(core)
    measured, sections = sizes(emitted, card), section_bytes(emitted, card)
    read_only = sum(sections.get(s, 0) for s in (".text", ".rodata", ".ARM.extab", ".ARM.exidx"))
    assert measured.code_bytes + measured.weight_bytes == read_only
    assert measured.ram_bytes == emitted.plan.memory_bytes + sections.get(".data", 0) + sections.get(".bss", 0)
    assert measured.flash_bytes == read_only + sections.get(".data", 0)


def test_sums_are_of_groups_and_padding() -> None:
    """Every group has a power of two of its own, so that no sum is right by chance."""
    groups = ("code", "library", "params", "tables", "constants", "weights", "biases", "multipliers", "data", "bss")
    total = Sizes(tuple(Symbol(g, g, 1 << (2 * i), 1 << (2 * i + 1), i % 2) for i, g in enumerate(groups)), 1 << 20)
    of = {group: 3 << (2 * i) for i, group in enumerate(groups)}
    assert dict(total.groups) == of
    assert total.weight_bytes == of["weights"] + of["biases"] + of["multipliers"]
    assert total.code_bytes == sum(of[g] for g in ("code", "library", "params", "tables", "constants"))
    assert total.flash_bytes == total.code_bytes + total.weight_bytes + of["data"]
    assert total.ram_bytes == (1 << 20) + of["data"] + of["bss"]
    assert total.layer(0) == {group: of[group] for group in groups[::2]}


def test_written_memory_of_the_image_is_ram() -> None:
    """Memory that starts as zero takes no flash; memory with other first values takes flash and RAM."""
    plain = project("dense", "cortex-m4", "compiled")
    run = "DENSE_SECTION_CODE int dense_run(void *arena, const"
    more = f"static volatile int dense_zero[5], dense_seven[2] = {{7}};\n{run}"
    text = plain.code["dense.c"].replace(run, more)
    text = text.replace("    return TW_OK;\n}", "    dense_zero[1] += dense_seven[1];\n    return TW_OK;\n}")
    both = [sizes(emitted, M4) for emitted in (plain, replace(plain, code={**plain.code, "dense.c": text}))]
    before, after = both
    assert (before.groups.get("bss", 0), before.groups.get("data", 0)) == (0, 0)
    assert (after.groups["bss"], after.groups["data"]) == (20, 8)
    assert after.ram_bytes == before.ram_bytes + 28
    assert after.flash_bytes - after.code_bytes == before.flash_bytes - before.code_bytes + 8


@pytest.mark.parametrize("channels", [1, 15, 16, 17, 255, 256, 300])
def test_multipliers_are_weights_and_tables_are_not(channels: int) -> None:
    """For any number of channels: a convolution's are padded to whole vectors; a look-up table has 256 values."""
    b = Builder("both")
    x = b.input("x", "INT8", (1, 2, 2, 1), scale=0.1)
    weights, bias = np.ones((channels, 1, 1, 1), np.int8), np.ones(channels, np.int32)
    scales = np.full(channels, 0.01)
    kernel, ends = b.constant(weights, scale=scales, zero=np.zeros(channels, int)), b.constant(bias)
    options = {"padding": "VALID", "stride_w": 1, "stride_h": 1}
    y = b.op("CONV_2D", [x, kernel, ends], shape=(1, 2, 2, channels), scale=0.2, **options)
    graph = b.graph([b.op("TANH", [y], scale=1 / 128)])
    apart = ["weights", "biases", "multipliers", "multipliers"]
    want = {target.name: apart for target in TARGETS}
    want |= {"dsp": ["weights", "biases"], "mve": ["weights"]}  # with others in one array
    want["tiles"] = [*apart, *["multipliers"] * (channels >= 4)]  # what negative sums get less
    for target in TARGETS:
        emitted = emit(make_plan(graph, target, Options(optimize="size")), "both")
        conv, tanh = emitted.plan.steps
        groups = _groups(emitted)
        (table,) = (a for a in tanh.call.inputs if isinstance(a, Constant))
        assert groups[emitted.constants.address(table) or ""] == "tables"
        roles = [groups[emitted.constants.address(a) or ""] for a in conv.call.inputs if isinstance(a, Constant)]
        assert roles == want[target.name]


def test_all_that_is_made_of_weights_counts_as_weights() -> None:
    assert {role for role in Role if _WORDS[role] not in WEIGHTS} == {Role.TABLE, Role.INDEX}


@MODES
@pytest.mark.parametrize("name", ["kws_int8"])
def test_constants_to_the_byte(name: str, mode: Mode) -> None:
    """Every array that a layer reads is there once, in its exact size; only alignment is added."""
    emitted = project(name, "cortex-m4", mode)
    measured = sizes(emitted, M4)
    arrays = {s.name: s.size for s in measured.symbols if s.group in (*WEIGHTS, "tables")}
    assert arrays == {c.symbol: c.array.nbytes for c in emitted.constants.all}
    stored = measured.weight_bytes + measured.groups.get("tables", 0)
    assert stored <= emitted.constants.nbytes + (emitted.plan.target.constant_alignment - 1) * len(arrays)


@pytest.mark.parametrize("weights", ["lut", "huffman", "bitmap"])
def test_coded_weights_are_weights(weights: Coding) -> None:
    """Codes and what decodes them, as the data file has them, count as weights; tables are those of the plain model."""
    graph = builtin()["digits_int8"]()
    plain, coded = (emit(make_plan(graph, M4.target, Options(weights=way)), "m") for way in ("plain", weights))
    found = re.findall(r"const (\w+) m_\d+_(?:codes|weights)(?:_\d+)?\[(\d+)\]", coded.files["m_data.c"])
    assert len(found) > 5
    stored = sum(int(count) * np.dtype(kind.removesuffix("_t")).itemsize for kind, count in found)
    groups = sizes(coded, M4).groups
    assert stored <= groups["weights"] <= stored + 7 * len(found)  # alignment
    assert groups["tables"] == sizes(plain, M4).groups["tables"]


def test_groups_and_layers() -> None:
    """kws: ten convolutions, pooling, fully connected, softmax with its table."""
    emitted = project("kws_int8", "cortex-m4", "compiled")
    measured = sizes(emitted, M4)
    channels = [s.node.output.shape[-1] for s in emitted.plan.steps if s.call.macs]
    by_step = {s.node.op: measured.layer(i) for i, s in enumerate(emitted.plan.steps)}
    first = emitted.plan.steps[0]
    assert measured.layer(0)["weights"] >= first.node.input(1).nbytes
    ends = measured.groups["biases"] + measured.groups["multipliers"]  # kernels may take both in one array
    assert 9 * sum(channels) <= ends <= 10 * sum(channels) + 8 * len(channels)
    assert by_step["SOFTMAX"]["tables"] >= emitted.plan.steps[-1].call.inputs[1].nbytes > 0
    assert by_step["AVERAGE_POOL_2D"].keys() == {"code"}
    names = {s.name: s.group for s in measured.symbols}
    assert names["kws_int8_run"] == "code"
    assert names["memset"] == "library"
    own = [s for s in measured.symbols if s.layer is None and s.name and s.group == "code"]
    assert [s.name for s in own] == ["kws_int8_run"]


@pytest.mark.parametrize("decode", ["layer", "start"])
def test_what_begins_anew_keeps_reset(decode: Decoding) -> None:
    """First values of variables, and weights that are decoded at the start, with all that decodes them."""
    measured = sizes(project("state", "cortex-m4", "compiled"), M4)
    assert "state_reset" in {s.name for s in measured.symbols}
    plan = make_plan(builtin()["digits_int8"](), M4.target, Options(weights="lut", decode=decode))
    measured = sizes(emit(plan, "m"), M4)
    names = {s.name for s in measured.symbols}
    assert ("m_reset" in names) == (decode == "start") == (plan.state_bytes > 0)
    assert any("codes" in name for name in names), "the codes are in the image whoever decodes them"


@pytest.mark.parametrize(
    ("model", "mode"), deep_but(product(PEER, ["compiled", "interpreted"]), ("mlp_ad01_int8", "interpreted"))
)
def test_smaller_than_asked(model: str, mode: Mode, corpus: Any) -> None:
    """The limits that the project sets itself against TFLM."""
    graph = load(str(corpus / "models" / f"{model}.tflite")).graph
    plan = make_plan(graph, find("cortex-m4").target, Options(mode=mode))
    measured: Sizes = sizes(emit(plan, model), M4)
    code, weights = PEER[model]
    assert measured.code_bytes <= 0.35 * code
    assert measured.weight_bytes <= 1.05 * weights
    assert measured.ram_bytes <= 1.10 * plan.lower_bound_bytes
