"""``twinfer inspect``: the file's operators, and what planning made of them."""

from __future__ import annotations

import io
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from flows import Sub
from needs import deep_but
from rich.console import Console
from rich.table import Table

from twinfer.bench.models.source import load
from twinfer.command_line.main import main
from twinfer.command_line.show.description import describe
from twinfer.command_line.show.model import render
from twinfer.command_line.targets import machine
from twinfer.converter.build import Builder
from twinfer.runtime.graph import Graph
from twinfer.runtime.plan.make import make_plan


def rows(text: str) -> list[str]:
    """The lines with single spaces."""
    return [" ".join(line.split()) for line in text.splitlines()]


@pytest.fixture
def unsigned(tmp_path: Path) -> str:
    """A FULLY_CONNECTED of uint8, whose values planning converts before and behind it, and then a RESHAPE."""
    b = Builder("byte")
    x = b.input("x", "UINT8", (1, 3), 0.5, 128)
    w = b.constant(np.full((2, 3), 130, np.uint8), 0.5, 128)
    y = b.op("FULLY_CONNECTED", [x, w, None], shape=(1, 2))
    z = b.op("RESHAPE", [y, np.array([2, 1], np.int32)], shape=(2, 1))
    b.graph([z]).save(tmp_path / "byte.tflite")
    return str(tmp_path / "byte.tflite")


def test_subgraphs_and_variables(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Operators of subgraphs have kernels, handles the names of their variables, control flow the words of ``ops``."""
    main_, init, test, body = Sub("main"), Sub("init"), Sub("test"), Sub("body")
    init.assign(init.handle("level"), np.array([1], np.float32))
    a, b = test.input(), body.input()
    main_.once(1)
    x, handle = main_.input(), main_.handle("level")
    y = main_.loop(2, 3, [main_.add(x, main_.read(handle))])[0]
    main_.assign(handle, y)
    others = (
        init.graph([]),
        test.graph([test.less(np.array([1], np.float32), a)]),
        body.graph([body.mul(b, np.array([0.5], np.float32))]),
    )
    path = tmp_path / "loop.tflite"
    main_.graph([y], *others).save(path)
    assert main(["inspect", str(path)]) == 0
    lines = rows(capsys.readouterr().out)
    for wanted in (
        "0 CALL_ONCE - - - - what a reset does",
        "1 VAR_HANDLE - level RESOURCE - a tensor of the state",
        "2 READ_VARIABLE level 1 FLOAT32 - in place",
        "4 WHILE 1 1 FLOAT32 - a loop of the program",
        "5 ASSIGN_VARIABLE level, 1 - - - copy",
        "0 LESS 1 1 BOOL - compare_f32",
        "0 MUL 1 1 FLOAT32 - f32",
    ):
        assert any(line.startswith(wanted) for line in lines), (wanted, lines)


def test_what_no_kernel_computes_is_counted_in_all_subgraphs() -> None:
    """Each in its table, and all together below them."""
    main_, then, other = Sub("main"), Sub("then"), Sub("else")
    x, a, b = main_.input(), then.input(), other.input()
    (y,) = main_.branch(main_.less(x, np.float32([2])), 1, 2, [x], [x])
    others = (
        then.graph([then.op("WHERE_IS_IT", [a])]),
        other.graph([other.op("WHERE_IS_IT", [other.op("NOT_IT", [b])])]),
    )
    graph = main_.graph([main_.op("NOT_IT", [y])], *others)
    parts = list(render("m", graph, None, "the reason", 160))
    said = [str(part) for part in parts]
    assert "operators without a kernel: NOT_IT ×2, WHERE_IS_IT ×2" in said
    assert "No plan: the reason" in said
    assert describe("m", graph, None, "the reason")["unsupported"] == {"NOT_IT": 2, "WHERE_IS_IT": 2}
    tables = [part for part in parts if isinstance(part, Table)][1:]
    assert [str(table.title) for table in tables] == ["Subgraph 0", "Subgraph 1", "Subgraph 2"]
    kernels = [[str(cell) for cell in table.columns[6].cells] for table in tables]
    assert kernels == [["-", "-", "unsupported"], ["unsupported"], ["unsupported", "unsupported"]]


def shifted(graph: Graph) -> Graph:
    """The same model, whose operators' numbers in the file begin at 7."""
    nodes = tuple(replace(node, index=node.index + 7) for node in graph.nodes)
    return replace(graph, nodes=nodes, subgraphs=tuple(map(shifted, graph.subgraphs)))


@pytest.mark.parametrize("name", deep_but(["unsigned", "kws_int8", "ic_int8"], "unsigned", "kws_int8"))
def test_every_number_of_an_operator_is_the_files(name: str, unsigned: str) -> None:
    """In text and JSON, whatever planning adds, drops and moves: seven more in all places, and nothing else."""
    graph = load(unsigned if name == "unsigned" else name).graph
    told, shown = list[Any](), list[str]()
    for each in (graph, shifted(graph)):
        plan = make_plan(each, machine("cortex-m4")[0])
        told.append(describe("m", each, plan, ""))
        console = Console(file=io.StringIO(), width=160)
        for part in render("m", each, plan, "", 160):
            console.print(part)
        shown.append(console.file.getvalue())  # type: ignore[attr-defined]
    for old, new in zip(told[0]["operators"], told[1]["operators"], strict=True):
        assert new["index"] == old["index"] + 7
        folded = None if old["folded"] is None else old["folded"] + 7
        assert (new["folded"], new["stacked"]) == (folded, [i + 7 for i in old["stacked"]])
    assert told[1]["plan"]["peak"] == {**told[0]["plan"]["peak"], "index": told[0]["plan"]["peak"]["index"] + 7}
    number = re.compile(r"^( *)(\d+)(?= +[A-Z]\w+ )|(?<=at operator )()(\d+)", re.MULTILINE)
    want = number.sub(lambda m: str(int(m[2] or m[4]) + 7).rjust(len(m[0])), shown[0])
    words = [[line.split() for line in text.splitlines() if line.strip("─ ")] for text in (shown[1], want)]
    assert words[0] == words[1], "but for rules, which numbers of two digits make longer"
