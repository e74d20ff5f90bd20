"""``twinfer solve``: placements are right, least where that can be tried out, and what is wrong in a file is named."""

from __future__ import annotations

import csv
import io
from itertools import permutations
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from twinfer.command_line.main import main

#: The example of minimalloc's README, which fits 12 bytes.
EXAMPLE = "id,lower,upper,size\nb1,0,3,4\nb2,3,9,4\nb3,0,9,4\nb4,9,21,4\nb5,0,21,4\n"

Block = tuple[int, int, int, int]


def solved(problem: str, path: Path, *more: str) -> list[dict[str, str]]:
    (path / "problem.csv").write_text(problem)
    assert main(["solve", str(path / "problem.csv"), "-o", str(path / "solution.csv"), *more]) == 0
    return [*csv.DictReader(io.StringIO((path / "solution.csv").read_text()))]


def least(blocks: list[Block]) -> int:
    """The fewest bytes, over all orders in which blocks can be put as low as they go."""
    best = 1 << 62
    for order in permutations(blocks):
        placed: list[tuple[int, Block]] = []
        for lower, upper, size, alignment in order:
            at = 0
            while any(
                low < upper and lower < up and at < start + s and start < at + size for start, (low, up, s, _) in placed
            ):
                at += alignment
            placed.append((at, (lower, upper, size, alignment)))
        best = min(best, max(at + each[2] for at, each in placed))
    return best


SOME = st.lists(
    st.tuples(st.integers(0, 5), st.integers(1, 4), st.integers(1, 9), st.sampled_from([1, 1, 2, 4])).map(
        lambda each: (each[0], each[0] + each[1], each[2], each[3])
    ),
    min_size=1,
    max_size=5,
)


@given(blocks=SOME)
def test_placements_are_right_and_least(blocks: list[Block], tmp_path_factory: pytest.TempPathFactory) -> None:
    lines = [f"{i},{','.join(map(str, block))}" for i, block in enumerate(blocks)]
    text = "\n".join(["id,lower,upper,size,alignment", *lines])
    rows = solved(text, tmp_path_factory.mktemp("solve"), "--exact")
    assert [(int(r["lower"]), int(r["upper"]), int(r["size"]), int(r["alignment"])) for r in rows] == blocks
    at = [int(row["offset"]) for row in rows]
    for i, (lower, upper, size, alignment) in enumerate(blocks):
        assert at[i] >= 0
        assert at[i] % alignment == 0
        for j, (low, up, s, _) in enumerate(blocks[:i]):
            assert not (low < upper and lower < up and at[i] < at[j] + s and at[j] < at[i] + size), (i, j)
    assert max(start + block[2] for start, block in zip(at, blocks, strict=True)) == least(blocks)


def test_the_example(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    rows = solved(EXAMPLE, tmp_path, "--capacity", "12")
    assert list(rows[0]) == ["id", "lower", "upper", "size", "offset"]
    assert "5 blocks in 12 bytes; no placement needs less" in capfd.readouterr().err
    (tmp_path / "solution.csv").unlink()
    assert main(["solve", str(tmp_path / "problem.csv"), "-o", str(tmp_path / "solution.csv"), "--capacity", "11"]) == 1
    assert not (tmp_path / "solution.csv").exists()
    assert main(["solve", str(tmp_path / "problem.csv")]) == 0
    assert [*csv.DictReader(io.StringIO(capfd.readouterr().out))] == rows


def test_the_columns_of_its_benchmarks(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """The step in a column ``end`` is the block's last."""
    rows = solved("buffer,start,end,size\n0,0,2,4\n1,2,3,4\n2,3,4,4\n", tmp_path)
    assert list(rows[0]) == ["buffer", "start", "end", "size", "offset"]
    assert [row["offset"] for row in rows] in (["0", "4", "0"], ["4", "0", "4"])
    assert "3 blocks in 8 bytes" in capfd.readouterr().err


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "no column 'id'"),
        ("id,lower,upper,size\n", "no blocks"),
        ("id,lower,size\na,0,1\n", "no column 'upper'"),
        ("id,lower,upper,size,gaps\na,0,4,1,1-2\n", "column 'gaps'"),
        ("id,lower,upper,size\na,0,1,4\nb,0,x,4\n", "line 3"),
        ("id,lower,upper,size\na,0,1\n", "line 2"),
        ("id,lower,upper,size\na,1,1,4\n", "line 2: needed are 0 <= lower < upper"),
        ("id,lower,upper,size\na,-1,1,4\n", "line 2"),
        ("id,lower,upper,size\na,0,1,-4\n", "line 2"),
        ("id,lower,upper,size\na,0,1,4,5\n", "line 2"),
        ("id,lower,upper,size,alignment\na,0,1,4,-2\n", "line 2"),
        (f"id,lower,upper,size\na,0,1,{1 << 80}\n", "line 2"),
        ("id,lower,upper,size\n\xff,0,1,4\n", "no CSV"),
    ],
)
def test_what_is_wrong_is_named(text: str, said: str, tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "problem.csv"
    path.write_bytes(text.encode("latin-1"))
    assert main(["solve", str(path), "-o", str(tmp_path / "solution.csv")]) == 2
    told = capfd.readouterr().err
    assert said in told
    assert "problem.csv" in told
    assert not (tmp_path / "solution.csv").exists()
