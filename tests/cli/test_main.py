"""The command as a user meets it: exit codes, one line an error, quick help."""

import errno
import os
import subprocess
import sys
import time

import pytest

from xmc import __version__, cli
from xmc.errors import ArtifactError, InputError, ResourceError, XmcError

HEAVY = {"torch", "numpy", "scipy", "pyarrow", "transformers", "faiss", "hydra", "omegaconf", "rdflib"}


def xmc(*arguments, **keywords):
    return subprocess.run(
        [sys.executable, "-m", "xmc", *arguments],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
        **keywords,
    )


@pytest.mark.parametrize("arguments", [["--help"], ["--version"], *([c, "--help"] for c in cli.COMMANDS)])
def test_help_is_quick_and_imports_nothing_heavy(arguments):
    code = (
        "import sys; from xmc.cli import main; code = main(sys.argv[1:]);"
        "print(*sorted({m.split('.')[0] for m in sys.modules}), file=sys.stderr); sys.exit(code)"
    )
    started = time.monotonic()
    done = subprocess.run(
        [sys.executable, "-c", code, *arguments], capture_output=True, text=True, timeout=60, check=False
    )
    assert time.monotonic() - started < 2  # some 0.1 s on an idle machine
    assert done.returncode == 0
    assert not HEAVY & set(done.stderr.split())


def test_help_names_every_command_and_version_is_the_package_s():
    assert all(f"  {name} " in xmc("--help").stdout for name in cli.COMMANDS)
    assert xmc("--version").stdout == f"xmc {__version__}\n"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "no command given"),
        (["tga"], "did you mean tag?"),
        (["--hlep"], "unknown command"),
        (["tag", "--bogus"], "unknown option --bogus"),
        (["index", "-o", "m"], "--labels F is missing"),
        (["index", "--labels", "l"], "-o MODEL is missing"),
        (["eval", "--gold", "g", "--pred", "p", "topk=3"], "unknown setting 'topk'"),
        (["eval", "--gold", "g", "--pred", "-", "--against", "-"], "are both -"),
    ],
)
def test_a_wrong_command_line_exits_2_with_one_line(arguments, message, capsys):
    assert cli.main(arguments) == 2
    said = capsys.readouterr()
    assert said.out == ""
    assert said.err.startswith("xmc: error: ")
    assert message in said.err
    assert said.err.count("\n") == 1


class OutOfMemoryError(RuntimeError):
    """Named as torch names it."""


@pytest.mark.parametrize(
    ("error", "code", "message"),
    [
        (InputError("a.tsv:3: odd"), 2, "a.tsv:3: odd"),
        (ArtifactError("m: damaged"), 2, "m: damaged"),
        (ResourceError("full"), 3, "full"),
        (XmcError("other"), 1, "other"),
        (OSError(errno.ENOSPC, "No space left on device", "/x/y"), 3, "/x/y: No space left on device"),
        (PermissionError(errno.EACCES, "Permission denied", "/x"), 3, "/x: Permission denied"),
        (MemoryError(), 3, "not enough memory"),
        (OutOfMemoryError("CUDA out of memory"), 3, "not enough memory"),
        (
            RuntimeError("DefaultCPUAllocator: not enough memory: you tried to allocate 9 bytes"),
            3,
            "not enough memory",
        ),
        (KeyError("x"), 1, "this is a bug"),
        (FileNotFoundError(errno.ENOENT, "No such file", "/x"), 1, "this is a bug"),
        (KeyboardInterrupt(), 130, "interrupted"),
    ],
)
def test_each_error_has_its_exit_code_and_one_line(error, code, message, monkeypatch, capsys):
    def fail(arguments):
        raise error

    monkeypatch.delenv(cli.DEBUG, raising=False)
    monkeypatch.setattr(cli, "_run", fail)
    assert cli.main(["tag"]) == code
    said = capsys.readouterr().err
    assert message in said
    assert said.count("\n") == 1
    assert "Traceback" not in said


def test_a_bug_shows_its_traceback_on_request(monkeypatch, capsys):
    monkeypatch.setenv(cli.DEBUG, "1")
    monkeypatch.setattr(cli, "_run", lambda arguments: {}["missing"])
    assert cli.main([]) == 1
    assert "Traceback" in capsys.readouterr().err


def test_a_message_stays_one_line_whatever_it_quotes(capsys):
    assert cli.main(["a\nb\x1b[31m\u202e\udc80"]) == 2
    said = capsys.readouterr().err
    assert said.count("\n") == 1
    assert "\x1b" not in said
    assert cli.one_line("قانون 👩‍⚖️ é") == "قانون 👩‍⚖️ é"


def test_a_closed_reader_of_standard_output_is_no_error():
    read, write = os.pipe()
    os.close(read)
    done = subprocess.run(
        [sys.executable, "-m", "xmc", "--help"], stdout=write, stderr=subprocess.PIPE, timeout=60, check=False
    )
    os.close(write)
    assert done.returncode == 141
    assert done.stderr == b""


BLOCKED = """
import sys, threading
from xmc.cli import main
from xmc.tag.pipeline import NAME
threading.Thread(target=sys.stdin.buffer.read, name=NAME, daemon=True).start()
sys.exit(main(["--version"]))
"""


def test_a_thread_that_waits_for_standard_input_does_not_hold_up_the_end():
    read, write = os.pipe()
    done = subprocess.run(
        [sys.executable, "-c", BLOCKED], stdin=read, capture_output=True, timeout=60, check=False
    )
    os.close(read)
    os.close(write)
    assert (done.returncode, done.stderr) == (0, b"")
    assert done.stdout.startswith(b"xmc ")


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="no /dev/full here")
def test_a_full_disk_behind_standard_output_is_told():
    with open("/dev/full", "w") as full:
        done = subprocess.run(
            [sys.executable, "-m", "xmc", "--help"],
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
            timeout=60,
            check=False,
        )
    assert done.returncode == 3
    assert "No space left" in done.stderr
    assert done.stderr.count("\n") == 1


def test_standard_output_may_be_closed():
    done = subprocess.run(
        ["bash", "-c", f"'{sys.executable}' -m xmc --help >&-"], capture_output=True, timeout=60, check=False
    )
    assert (done.returncode, done.stderr) == (0, b"")


def test_sigterm_unwinds_the_stack(tmp_path):
    code = (
        "import sys, os, signal; from xmc import cli\n"
        "def wait(arguments):\n"
        "    try:\n"
        "        os.kill(os.getpid(), signal.SIGTERM); signal.pause()\n"
        "    finally:\n"
        "        print('cleaned up', flush=True)\n"
        "cli._run = wait; sys.exit(cli.main([]))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=False
    )
    assert done.stdout == "cleaned up\n"
    assert done.returncode == 143


def test_help_is_written_where_the_terminal_has_no_unicode():
    done = xmc("tag", "--help", env={**os.environ, "PYTHONIOENCODING": "ascii", "COLUMNS": "80"})
    assert done.returncode == 0
