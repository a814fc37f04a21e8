import json
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import pytest

from xmc.bench.stages import Conditions, Stage, digest_of, run_stage, state_of
from xmc.errors import InputError, ResourceError, XmcError

BUSY = "import time\nb = bytearray(400 << 20)\nwhile time.process_time() < 0.4: pass\nprint('out')"


MADE = Conditions({}, "c0ffee", {"xmc": "1"}, {"cpus": 2, "load_1min": 0.5})


def run(stage, folder, made=MADE, anew=False):
    return run_stage(stage, folder, made, anew)[0]


def python(code):
    return [sys.executable, "-S", "-c", code]


def test_a_stage_has_its_own_time_and_memory(tmp_path):
    output = tmp_path / "out.txt"
    cost = run(Stage("busy", python(BUSY), output, output), tmp_path)
    small = run(Stage("small", python("pass"), tmp_path), tmp_path)
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
from xmc.bench.stages import Conditions, Stage, run_stage
folder, made = Path({str(tmp_path)!r}), Conditions({{}}, None, {{}}, {{}})
large, _ = run_stage(Stage("busy", {python(BUSY)!r}, folder), folder, made)
small, _ = run_stage(Stage("small", {python("pass")!r}, folder), folder, made)
print(large.peak_kib - small.peak_kib)
"""
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert int(found.stdout) > 100 << 10


def test_a_folder_has_another_checksum_when_a_file_in_it_changes_or_has_another_name(tmp_path):
    (tmp_path / "train").mkdir()
    (tmp_path / "train" / "1.json").write_text("{}")
    before = digest_of(tmp_path)
    assert before == digest_of(tmp_path)
    (tmp_path / "train" / "1.json").rename(tmp_path / "train" / "2.json")
    renamed = digest_of(tmp_path)
    (tmp_path / "train" / "2.json").write_text("[]")
    assert len({before, renamed, digest_of(tmp_path), digest_of(tmp_path / "train" / "2.json")}) == 4


def appending(path):
    return python(f"open({str(path)!r}, 'a').write('x')")


def test_a_finished_stage_is_not_run_again_and_another_command_is_refused(tmp_path):
    runs = tmp_path / "runs"
    stage = Stage("one", appending(runs), runs)
    assert run_stage(stage, tmp_path, MADE)[1]
    busier = replace(MADE, hardware={"cpus": 2, "load_1min": 40})
    assert not run_stage(stage, tmp_path, busier)[1]
    assert runs.read_text() == "x"
    with pytest.raises(InputError, match=r"was made by another command.*another folder \(-o\)"):
        run(replace(stage, command=python("pass")), tmp_path)


def test_a_result_of_other_data_code_or_machine_is_refused(tmp_path):
    data = tmp_path / "train.jsonl"
    data.write_text("one")
    stage, made = Stage("one", python("pass"), data), replace(MADE, files={"train": state_of(data)})
    run(stage, tmp_path, made)
    data.write_text("other")
    for changed, said in (
        (replace(made, files={"train": state_of(data)}), "train changed"),
        (replace(made, git="decaf"), "commit .*was c0ffee, is decaf"),
        (replace(made, versions={"xmc": "2"}), "version of xmc was 1, is 2"),
        (replace(made, hardware={"cpus": 64}), "cpus was 2, is 64"),
    ):
        with pytest.raises(InputError, match=said):
            run(stage, tmp_path, changed)
        assert run_stage(replace(stage, quick=True), tmp_path, changed)[1]
        run(replace(stage, quick=True), tmp_path, made)


def test_a_stage_whose_result_is_gone_or_outdated_is_run_again(tmp_path):
    runs = tmp_path / "runs"
    stage = Stage("one", appending(runs), runs)
    run(stage, tmp_path)
    runs.unlink()
    assert not run(stage, tmp_path).resumed
    assert runs.read_text() == "x"
    (tmp_path / "runs.quarantine").touch()
    run(stage, tmp_path, anew=True)
    assert runs.read_text() == "x"
    assert not (tmp_path / "runs.quarantine").exists()


ODD = json.dumps({"command": [], "made": {"files": [], "git": None, "versions": {}, "hardware": {}}})


@pytest.mark.parametrize("held", ["{", "[]", '{"command": []}', "null", ODD])
def test_damaged_notes_are_told_by_name(tmp_path, held):
    stage = Stage("one", python("pass"), tmp_path)
    (tmp_path / "one.begun").write_text(held)
    with pytest.raises(InputError, match=r"one.begun: .*another folder"):
        run(stage, tmp_path)
    (tmp_path / "one.cost.json").write_text(held)
    with pytest.raises(InputError, match=r"one.cost.json: .*another folder"):
        run(stage, tmp_path)


def test_a_stage_that_was_cut_off_runs_again_and_says_so(tmp_path):
    twice = str(tmp_path / "twice")
    code = f"import os, sys; n = os.path.exists({twice!r}); open({twice!r}, 'w'); sys.exit(2 - 2 * n)"
    stage = Stage("one", python(code), tmp_path)
    with pytest.raises(InputError):
        run(stage, tmp_path)
    with pytest.raises(InputError, match=r"commit .*is decaf"):
        run(stage, tmp_path, replace(MADE, git="decaf"))
    assert run(stage, tmp_path).resumed
    assert json.loads((tmp_path / "one.cost.json").read_text())["resumed"]


def alive(pid):
    """Whether it runs; one that ended and that nobody has asked about yet does not."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False


@pytest.mark.skipif(not Path("/proc/self").exists(), reason="needs /proc")
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_a_stage_and_what_it_started_end_with_the_benchmark(tmp_path, number):
    """Also where the program that measures takes no care of signals, as those that run peers."""
    sleep = f"import os, time; open({str(tmp_path)!r} + f'/{{os.getpid()}}.pid', 'w'); time.sleep(100)"
    stage = python(f"import subprocess as s; s.Popen({python(sleep)!r}); {sleep}")
    code = f"""
import signal
from pathlib import Path
from xmc.bench.stages import Conditions, Stage, run_stage
signal.signal({int(number)}, signal.SIG_DFL)  # nohup would have it ignored
folder = Path({str(tmp_path)!r})
run_stage(Stage("slow", {stage!r}, folder), folder, Conditions({{}}, None, {{}}, {{}}))
"""
    process = subprocess.Popen([sys.executable, "-c", code])
    wait_until(lambda: len(list(tmp_path.glob("*.pid"))) == 2)
    process.send_signal(number)
    assert process.wait(60) == 128 + number
    wait_until(lambda: not any(alive(path.stem) for path in tmp_path.glob("*.pid")))
    assert (tmp_path / "slow.begun").exists()


def wait_until(holds):
    give_up = time.monotonic() + 60
    while not holds():
        assert time.monotonic() < give_up
        time.sleep(0.05)


@pytest.mark.parametrize(("code", "kind"), [(2, InputError), (3, ResourceError), (1, XmcError)])
def test_a_stage_that_fails_is_quoted_and_keeps_its_exit_code(tmp_path, code, kind):
    wrong = python(f"import sys; print('xmc: error: no such file', file=sys.stderr); sys.exit({code})")
    with pytest.raises(kind, match=f"stage bad ended with code {code}: no such file .*bad.log") as found:
        run(Stage("bad", wrong, tmp_path), tmp_path)
    assert found.value.exit_code == code
