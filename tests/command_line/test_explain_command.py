"""``twinfer explain`` on the command line."""

from __future__ import annotations

import json
from typing import Any

import pytest

from twinfer.aot.build.targets import find
from twinfer.command_line.main import main

pytestmark = pytest.mark.usefixtures("board_tools")

M4 = find("cortex-m4")


def run(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str, str]:
    status = main(["explain", *arguments])
    said = capsys.readouterr()
    return status, said.out, said.err


def test_the_command_prints_one_object(capsys: pytest.CaptureFixture[str]) -> None:
    status, out, _ = run(
        capsys, "digits_int8", "--target", "cortex-m4", "--json", "-", "--ladder", "--techniques", "folding"
    )
    told = json.loads(out)
    assert status == 0
    assert (told["schema"], told["target"], told["unit"]) == (1, "cortex-m4", "instructions")
    for line in (*told["layers"], told["total"]):
        assert set(line) == {"position", "op", "name", "steps", "operators", "interpreted", "compiled", "causes"}
        assert sum(line["causes"].values()) == line["interpreted"] - line["compiled"]
    (rung,) = told["ladder"]["rungs"]
    assert rung["technique"] == "folding"
    assert rung["added"]["taken"] < told["ladder"]["none"]["taken"]


def test_the_command_on_two_targets(capsys: pytest.CaptureFixture[str], tmp_path: Any) -> None:
    place = tmp_path / "explained.json"
    status, out, _ = run(capsys, "digits_int8", "--target", "m4,m0", "--json", str(place))
    told = json.loads(place.read_text())
    assert status == 0
    assert [each["target"] for each in told["ledgers"]] == ["cortex-m4", "cortex-m0"]
    assert "digits_int8 on cortex-m4: instructions" in out
    assert "digits_int8 on cortex-m0: instructions" in out


def test_the_command_writes_a_page(capsys: pytest.CaptureFixture[str], tmp_path: Any) -> None:
    place = tmp_path / "explained.html"
    status, _, _ = run(capsys, "digits_int8", "--target", "m4,m0", "--html", str(place))
    assert status == 0
    html = place.read_text()
    assert "What compiling digits_int8 is worth" in html
    assert html.index("On cortex-m4</h2>") < html.index("On cortex-m0</h2>")
    assert html.count('<figure class="chart"') == 4


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--techniques", "folding"], "give --ladder, too"),
        (["--ladder", "--techniques", "x", "--target", "m4"], "there is no technique 'x'"),
        (["--input-rows"], "take a whole input"),
        (["--target", "m99"], "no target 'm99'"),
    ],
)
def test_what_the_command_refuses(arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]) -> None:
    status, out, err = run(capsys, "digits_int8", *arguments)
    assert status == 2
    assert message in err
    assert not out
