"""``make sweep``: its verdicts, its choice of models, and the cheap commands over 60 models of the corpus."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest
from needs import SHARED, deep_but
from sweep.__main__ import Journal, key_of
from sweep.judge import judge
from sweep.tasks import EXTRAS, SETTINGS, TARGETS, Command, Model, Task, chosen, corpus, tasks

CORPUS = (SHARED / "corpus" / "index.json").exists()


def shell(text: str, makes: tuple[str, ...] = (), needs: str = "") -> Command:
    return Command(text[:20], ("-c", text), makes, needs, "sh")


@pytest.mark.parametrize(
    ("text", "kind", "why"),
    [
        ("echo good", "done", ""),
        ("echo twinfer: warning: odd >&2", "done", ""),
        ("echo twinfer: no such file >&2; exit 2", "refused", "twinfer: no such file"),
        ("echo twinfer: warning: odd >&2; echo twinfer: no >&2; exit 2", "refused", "twinfer: no"),
        ("echo twinfer: no >&2; echo more >&2; exit 2", "failed", "more"),
        ("echo no >&2; exit 2", "failed", "exit status 2: no"),
        ("echo twinfer: it differs >&2; exit 1", "failed", "exit status 1: twinfer: it differs"),
        ("echo 'Traceback (most recent call last):' >&2; echo KeyError: 3 >&2; exit 2", "failed", "KeyError: 3"),
        ("kill -SEGV $$", "failed", "exit status"),
        ("touch half; echo twinfer: no >&2; exit 2", "failed", "it was refused and wrote half"),
        ("true # makes", "failed", "it is done without x.json"),
        ("echo '{' > x.json # makes", "failed", "x.json is no JSON"),
        ("echo '[Infinity]' > x.json # makes", "failed", "x.json is no JSON"),
        ("echo '[1]' > x.json # makes", "done", ""),
        ("sleep 60", "failed", "it took too long"),
    ],
)
def test_verdicts(text: str, kind: str, why: str) -> None:
    command = shell(text, ("x.json",) if "# makes" in text else ())
    (outcome,) = judge(Task("m", "g", (command,)), 0.5 if "sleep" in text else 60.0)
    assert outcome.kind == kind, outcome
    assert why in outcome.why


def test_a_command_of_twinfer() -> None:
    """In a process of its own: done, refused, and a traceback where something breaks."""
    lines = [("ops", "kws_int8"), ("inspect", "not there"), ("run", "kws_int8", "--output", "y.npz")]
    commands = tuple(Command(str(i), line, ("y.npz",) if i == 2 else ()) for i, line in enumerate(lines))
    assert [outcome.kind for outcome in judge(Task("m", "g", commands))] == ["done", "refused", "done"]


def test_what_needs_another_command_waits_for_it() -> None:
    first, second = shell("exit 1"), shell("true", needs="exit 1")
    assert len(judge(Task("m", "g", (first, second)))) == 1
    late = judge(Task("m", "g", (shell("sleep 60"), shell("true"))), 0.3)
    assert [outcome.why[:16] for outcome in late] == ["it took too long"]


def test_a_stopped_sweep_goes_on(tmp_path: Path) -> None:
    task = Task("kws_int8", "g", (shell("true"),))
    outcomes = judge(task)
    journal = Journal(tmp_path / "j", fresh=True, again=False)
    journal.keep(task, outcomes)
    with (tmp_path / "j").open("a") as file:
        file.write('{"key": "cut of')
    assert Journal(tmp_path / "j", fresh=False, again=False).known == {key_of(task): outcomes}
    assert Journal(tmp_path / "j", fresh=True, again=False).known == {}
    assert key_of(task) != key_of(Task("kws_int8", "g", (shell("false"),)))


def test_every_target_and_every_setting_is_compiled() -> None:
    """Each model for every target; models whose numbers follow each other in every way there is."""
    models = [Model(f"m{i}", (("sha256", f"{i:x}"),)) for i in range(len(SETTINGS))]
    seen = Counter[tuple[str, ...]]()
    for task in tasks(models, ["compile"]):
        lines = [command.words for command in task.commands if command.label == "compile"]
        assert [words[words.index("--target") + 1] for words in lines] == [*TARGETS]
        ways = ("--target", "--mode", "--optimize", "--memory")
        seen.update(tuple(words[words.index(way) + 1] for way in ways) for words in lines)
    assert seen == {(target, *setting): 1 for target in TARGETS for setting in SETTINGS}


@pytest.mark.skipif(not CORPUS, reason="the corpus is not here")
@pytest.mark.parametrize("part", deep_but(range(20), 0))
def test_sixty_models(part: int) -> None:
    """The cheap commands: each is done or refused in words. What runs is compiled, if no more is asked than that."""
    extras = {word for extra in EXTRAS for word in extra}
    for task in tasks(chosen(corpus(), 60)[part::20], ["quick"]):
        outcomes = judge(task, 600)
        failed = [f"{outcome.line}: {outcome.why}" for outcome in outcomes if outcome.kind == "failed"]
        assert not failed, "\n".join(failed)
        done = {outcome.label for outcome in outcomes if outcome.kind == "done"}
        refused = [o for o in outcomes if o.label == "compile" and not extras & {*o.line.split()} and o.kind != "done"]
        assert "run" not in done or not refused, refused
