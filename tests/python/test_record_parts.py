# SPDX-License-Identifier: BSD-3-Clause
"""The recorder's parts, without a session daemon: buffers, command lines, running commands, counting."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from fabtrace.errors import FabtraceError
from fabtrace.record import buffers, command, commands, lttng, options, processes, tally
from fabtrace.record.buffers import GIB, KIB, MIB, Buffers
from fabtrace.record.signals import Signals

# ------------------------------------------------------------------------------ buffers


def test_buffers_are_usual_when_there_is_room() -> None:
    assert buffers.choose("ops", None, 2, 4 * GIB) == (Buffers(4 * MIB, 8), "")
    assert buffers.choose("full", None, 2, 4 * GIB) == (Buffers(4 * MIB, 8), "")
    assert buffers.choose("light", None, 2, 4 * GIB) == (Buffers(256 * KIB, 4), "")


def test_many_processors_get_smaller_rings() -> None:
    """All together at most 2 GiB, without a remark: that is as it should be."""
    assert buffers.choose("ops", None, 64, 64 * GIB) == (Buffers(4 * MIB, 8), "")
    assert buffers.choose("ops", None, 128, 64 * GIB) == (Buffers(2 * MIB, 8), "")
    assert buffers.choose("ops", None, 1024, 64 * GIB) == (Buffers(512 * KIB, 4), "")
    assert buffers.choose("ops", None, 9999, 64 * GIB) == (Buffers(512 * KIB, 4), "")
    assert buffers.choose("ops", Buffers(4 * MIB, 8), 128, 64 * GIB)[0] == Buffers(4 * MIB, 8)


def test_buffers_shrink_to_half_the_room_and_say_so() -> None:
    """A container's 64 MiB: two processors may have 32 MiB together."""
    chosen, remark = buffers.choose("ops", None, 2, 64 * MIB)
    assert chosen == Buffers(2 * MIB, 8)
    assert 2 * chosen.ring_bytes <= 32 * MIB
    assert "64 MiB" in remark and "remount,size=128M" in remark


def test_buffers_that_do_not_fit_are_refused_with_the_remedy() -> None:
    with pytest.raises(FabtraceError, match=r"/dev/shm has 1 MiB free.*remount,size=\d+M"):
        buffers.choose("ops", None, 64, 1 * MIB)
    with pytest.raises(FabtraceError, match="too little"):
        buffers.choose("ops", Buffers(4 * MIB, 8), 2, 63 * MIB)


def test_wanted_buffers_are_taken_as_they_are() -> None:
    assert buffers.choose("ops", Buffers(4 * KIB, 2), 2, GIB) == (Buffers(4 * KIB, 2), "")


@pytest.mark.parametrize("text, size, count", [("4Mx8", 4 * MIB, 8), ("64kx2", 64 * KIB, 2)])
def test_buffer_option(text: str, size: int, count: int) -> None:
    assert buffers.parse(text) == Buffers(size, count)


@pytest.mark.parametrize(
    "text", ["", "4M", "3Mx8", "4Mx7", "4Mx1", "2Kx4", "4Mx8 ", "-4Mx8", "4Gx8"]
)
def test_bad_buffer_option(text: str) -> None:
    with pytest.raises(FabtraceError, match="--buffers") as caught:
        buffers.parse(text)
    assert caught.value.exit_code == 2


def test_processors_count_with_holes() -> None:
    assert buffers.count_processors("0\n") == 1
    assert buffers.count_processors("0-3,8-11\n") == 12


def test_a_full_disk_is_refused() -> None:
    with pytest.raises(FabtraceError, match="1 MiB free on its disk.*-o DIR"):
        buffers.check_disk(Path("/x"), MIB)
    assert "will not fit" in buffers.check_disk(Path("/x"), 100 * MIB)
    assert buffers.check_disk(Path("/x"), 100 * GIB) == ""


# ------------------------------------------------------------------------------ command lines


def test_commands_are_split() -> None:
    first, second = commands.split(["a", "-n", "4", "--and", "b", "{address}"])
    assert first.words == ["a", "-n", "4"] and not first.needs_address
    assert second.words == ["b", "{address}"] and second.needs_address


@pytest.mark.parametrize("words", [[], ["--and"], ["a", "--and"], ["--and", "a"], ["a{address}"]])
def test_bad_command_lines(words: list[str]) -> None:
    with pytest.raises(FabtraceError, match="^record: ") as caught:
        commands.split(words)
    assert caught.value.exit_code == 2


def test_programs_are_looked_up_first(tmp_path: Path) -> None:
    text = tmp_path / "text"
    text.write_text("")
    for program, code in (
        ("no-such-program", 127),
        (str(tmp_path / "none"), 127),
        (str(text), 126),
    ):
        with pytest.raises(FabtraceError, match=f"cannot start {program}") as caught:
            commands.check_programs([commands.Command([program])])
        assert caught.value.exit_code == code


def test_a_folder_in_use_is_refused(tmp_path: Path) -> None:
    (tmp_path / "x").write_text("")
    with pytest.raises(FabtraceError, match="not empty; choose another"):
        options.check_folder(tmp_path, "t")
    with pytest.raises(FabtraceError, match="not a folder"):
        options.check_folder(tmp_path / "x", "t")
    (tmp_path / "empty").mkdir()
    options.check_folder(tmp_path / "empty", "t")


def test_the_folder_goes_when_nothing_came_to_be_in_it(tmp_path: Path) -> None:
    with command.trace_folder(tmp_path / "a" / "b"):
        assert (tmp_path / "a" / "b").is_dir()
    assert not (tmp_path / "a" / "b").exists()
    with command.trace_folder(tmp_path / "a" / "c"):
        (tmp_path / "a" / "c" / "metadata").write_text("")
    assert (tmp_path / "a" / "c").exists()


def test_the_run_id_of_the_user_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FABT_RUN_ID", "1f")
    assert command.environment()["FABT_RUN_ID"] == "1f"
    monkeypatch.delenv("FABT_RUN_ID")
    ids = {command.environment()["FABT_RUN_ID"] for _ in range(3)}
    assert len(ids) == 3 and all(len(text) == 16 and int(text, 16) >= 0 for text in ids)


# ------------------------------------------------------------------------------ running commands


def run(*words: list[str], grace: float = 30.0) -> tuple[commands.Runner, int]:
    """Run commands as the recorder does, without recording."""
    with Signals() as signals:
        flat = [word for group in words for word in ["--and", *group]][1:]
        runner = commands.Runner(commands.split(flat), os.environ, signals, grace)
        runner.run()
        return runner, runner.exit_code


def sh(script: str) -> list[str]:
    return ["sh", "-c", script]


def test_exit_code_is_the_first_that_is_not_0() -> None:
    assert run(sh("exit 0"), sh("exit 0"))[1] == 0
    assert run(sh("exit 0"), sh("exit 4"), sh("exit 5"))[1] == 4
    assert run(sh("exit 3"), sh("exit 4"))[1] == 3
    assert run(sh("kill -KILL $$"))[1] == 128 + 9


def test_output_is_untouched_and_the_address_found(
    capfdbinary: pytest.CaptureFixture[bytes],
) -> None:
    """The first line feeds the second command; all of the output, NUL and all, comes through."""
    first = [
        sys.executable,
        "-c",
        "import os; os.write(1, b'a:b\\n\\0\\xff' + b'x' * 300000 + b'end')",
    ]
    _, code = run(first, sh('echo "<$1|$2>" >&2; exit 7') + ["-", "{address}", "--a={address}"])
    out, err = capfdbinary.readouterr()
    assert out == b"a:b\n\0\xff" + b"x" * 300000 + b"end"
    assert b"<a:b|--a=a:b>" in err
    assert code == 7


def test_commands_without_placeholder_start_at_once(tmp_path: Path) -> None:
    """The first prints its address only when the third has run."""
    fifo = tmp_path / "fifo"
    os.mkfifo(fifo)
    _, code = run(
        sh(f"read x <{fifo}; echo $x"), sh("[ {address} = abc ]"), sh(f"echo abc >{fifo}")
    )
    assert code == 0


@pytest.mark.parametrize(
    "script, message, code",
    [
        ("exit 5", "ended with exit code 5 before", 5),
        ("exit 0", "ended with exit code 0 before", 1),
        ("printf abc", "ended with exit code 0 before", 1),
        ("echo; exec cat /dev/zero >/dev/null", "an empty line", 1),
        ("head -c 5000 /dev/zero; exec cat /dev/zero >/dev/null", "more than 4096 bytes", 1),
    ],
)
def test_no_address(script: str, message: str, code: int) -> None:
    runner, exit_code = run(sh(script), sh("echo {address}"))
    assert runner.failure is not None and message in str(runner.failure)
    assert "{address}" in str(runner.failure)
    assert exit_code == code
    assert runner.commands[1].process is None


def test_closed_output_is_no_address(capfd: pytest.CaptureFixture[str]) -> None:
    runner, code = run(sh("exec >&-; exec sleep 1000"), sh("echo {address}"), grace=0.1)
    assert "closed its output" in capfd.readouterr().err
    assert runner.failure is not None and code == 128 + 15


def test_others_get_a_grace_when_one_fails(capfd: pytest.CaptureFixture[str]) -> None:
    _, code = run(sh("exec sleep 1000"), sh("exit 3"), grace=0.1)
    assert "sh ended with exit code 3; sh may go on for 0.1 s" in capfd.readouterr().err
    assert code == 128 + 15


def test_a_program_that_vanished_ends_the_others(tmp_path: Path) -> None:
    runner, code = run(sh("exec sleep 1000"), [str(tmp_path / "gone")])
    assert runner.failure is not None and "cannot start" in str(runner.failure)
    assert code == 127
    assert runner.commands[0].code == 128 + 15


def test_each_signal_is_passed_on_once(tmp_path: Path) -> None:
    """
    Description: the command sends us SIGINT twice, waits for its own, then sends SIGTERM and waits
    for that. Signals arrive in order, so a second SIGINT would be there before the SIGTERM.
    """
    log = tmp_path / "log"
    script = f"""
        trap 'echo INT >>{log}; int=1' INT
        trap 'echo TERM >>{log}; exit 9' TERM
        kill -INT $PPID; kill -INT $PPID
        while [ -z "$int" ]; do :; done
        kill -INT $PPID; kill -TERM $PPID
        while :; do :; done
    """
    _, code = run(sh(script))
    assert log.read_text().split() == ["INT", "TERM"]
    assert code == 9


def test_what_ignores_the_signal_is_killed_with_all_it_started() -> None:
    script = "trap '' INT; sleep 1000 & kill -INT $PPID; wait; exec sleep 1000"
    runner, code = run(sh(script), grace=0.2)
    assert code == 128 + 9
    assert runner.commands[0].process is not None
    assert processes.group_members([runner.commands[0].process.pid]) == []


def test_stopped_before_the_second_started_is_no_success() -> None:
    script = "trap 'exit 0' INT; kill -INT $PPID; while :; do :; done"
    _, code = run(sh(script), sh("echo {address}"))
    assert code == 128 + 2


def test_interrupted_commands_that_end_well_are_a_success() -> None:
    assert run(sh("trap 'exit 0' INT; kill -INT $PPID; while :; do :; done"))[1] == 0


# ------------------------------------------------------------------------------ counting

LINE = '[1] host fabt:{name}: {{ cpu_id = 1 }}, {{ writer = {writer}, seq = {seq}, x = "fabt:no: {{" }}\n'


def lines(name: str, writer: int, seqs: list[int]) -> str:
    return "".join(LINE.format(name=name, writer=writer, seq=seq) for seq in seqs)


def emitted(writer: int, seq: int, name: str, count: int) -> str:
    return (
        f"[1] host fabt:emitted: {{ cpu_id = 0 }}, {{ writer = {writer}, seq = {seq},"
        f' event = ( "{name}" : container = 5 ), count = {count} }}\n'
    )


def tallied(text: str) -> tally.Tally:
    result = tally.Tally(declared={b"load"})
    result.add(text.encode())
    return result


def test_nothing_lost() -> None:
    text = lines("load", 1024, [0, 1, 2]) + lines("load", 2048, [0]) + emitted(1024, 0, "load", 3)
    counted = tallied(text)
    assert (counted.events, counted.lost) == (5, 0)
    assert counted.by_process() == {1: {"load": 3, "emitted": 1}, 2: {"load": 1}}


def process(writer: int, cause: str = "start") -> str:
    """A process tells who it is."""
    return (
        f"[1] host fabt:process: {{ cpu_id = 0 }}, {{ writer = {writer}, seq = 0,"
        f' cause = ( "{cause}" : container = 0 ), instance = {writer // 1024}, schema_version = 1,'
        ' role = ( "put" : container = 1 ), pid = 77, run_id = 0xFF, start_ns = 1 }\n'
    )


def test_lost_at_the_beginning_in_the_middle_and_at_the_end() -> None:
    start = process(1024)
    assert tallied(start + lines("load", 1025, [2, 3])).lost == 2
    assert tallied(start + lines("load", 1025, [0, 3])).lost == 2
    assert tallied(start + lines("load", 1025, [0]) + emitted(1025, 0, "load", 4)).lost == 3
    assert tallied(start + emitted(1025, 0, "load", 4)).lost == 4
    assert tallied(start + emitted(1025, 0, "another_level", 4)).lost == 0


def test_what_was_before_the_recording_is_not_lost() -> None:
    for start in ("", process(1024, "state_dump")):
        assert tallied(start + lines("load", 1025, [2, 3])).lost == 0
        assert tallied(start + lines("load", 1025, [2, 5])).lost == 2
        text = start + lines("load", 1025, [2]) + emitted(1025, 0, "load", 4)
        assert tallied(text).lost == 1
        assert tallied(start + emitted(1025, 0, "load", 4)).lost == 0


def test_processes_are_named() -> None:
    assert tallied(process(3072)).processes == {3: ("put", 77, 255)}


def test_the_reason_of_a_failure_is_found() -> None:
    assert lttng.complaint("Error: A\nWarning: w\nError: B\n\n") == "B"
    assert lttng.complaint("something\n") == "something"
    assert lttng.complaint("") == "it gave no reason"
