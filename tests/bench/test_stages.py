import json
import subprocess
import sys

import pytest

from xmc.bench.stages import Stage, run_stage
from xmc.errors import InputError, ResourceError, XmcError

BUSY = "import time\nb = bytearray(400 << 20)\nwhile time.process_time() < 0.4: pass\nprint('out')"


def python(code):
    return [sys.executable, "-S", "-c", code]


def test_a_stage_has_its_own_time_and_memory(tmp_path):
    output = tmp_path / "out.txt"
    cost = run_stage(Stage("busy", python(BUSY), output), tmp_path)
    small = run_stage(Stage("small", python("pass")), tmp_path)
    assert cost.cpu_s >= 0.4
    assert cost.wall_s >= 0.4
    assert cost.peak_kib > 400 << 10
    assert small.cpu_s < 0.3
    assert output.read_text() == "out\n"
    assert not cost.resumed


def test_the_memory_of_a_stage_is_not_that_of_the_one_before(tmp_path):
    """Measured from a small process, as `xmc bench` is one: a stage's peak is never below its parent's."""
    code = f"""
import sys
from pathlib import Path
from xmc.bench.stages import Stage, run_stage
large = run_stage(Stage("busy", {python(BUSY)!r}, Path({str(tmp_path)!r}) / "out"), Path({str(tmp_path)!r}))
small = run_stage(Stage("small", {python("pass")!r}), Path({str(tmp_path)!r}))
print(large.peak_kib - small.peak_kib)
"""
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert int(found.stdout) > 100 << 10


def test_a_finished_stage_is_not_run_again_and_another_command_is_refused(tmp_path):
    command = python(f"open({str(tmp_path / 'runs')!r}, 'a').write('x')")
    assert run_stage(Stage("one", command), tmp_path) == run_stage(Stage("one", command), tmp_path)
    assert (tmp_path / "runs").read_text() == "x"
    with pytest.raises(InputError, match="was made by another command"):
        run_stage(Stage("one", python("pass")), tmp_path)


def test_a_stage_that_was_cut_off_runs_again_and_says_so(tmp_path):
    twice = str(tmp_path / "twice")
    code = f"import os, sys; n = os.path.exists({twice!r}); open({twice!r}, 'w'); sys.exit(2 - 2 * n)"
    with pytest.raises(InputError):
        run_stage(Stage("one", python(code)), tmp_path)
    assert run_stage(Stage("one", python(code)), tmp_path).resumed
    assert json.loads((tmp_path / "one.cost.json").read_text())["resumed"]


@pytest.mark.parametrize(("code", "kind"), [(2, InputError), (3, ResourceError), (1, XmcError)])
def test_a_stage_that_fails_is_quoted_and_keeps_its_exit_code(tmp_path, code, kind):
    wrong = python(f"import sys; print('xmc: error: no such file', file=sys.stderr); sys.exit({code})")
    with pytest.raises(kind, match=f"stage bad ended with code {code}: no such file .*bad.log") as found:
        run_stage(Stage("bad", wrong), tmp_path)
    assert found.value.exit_code == code
