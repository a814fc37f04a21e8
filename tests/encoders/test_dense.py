from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch

from xmc.encoders import int8, pretrained
from xmc.encoders.dense import DenseTower
from xmc.encoders.forward import PaddedForward
from xmc.encoders.leads import LEAD_SHARE
from xmc.encoders.windows import tokenise
from xmc.encoders.writer import read_vectors
from xmc.errors import InputError, ResourceError, SettingError

TEXTS = [
    "air transport",
    "Council Regulation (EC) No 2371/2002 on the conservation of fisheries resources. " * 40,
    "قانون",
    "",
    "space law and the budget, annual",
    "\u200b",
    "a",
]

needs_int8 = pytest.mark.skipif(not int8.available(), reason="torch has no 8-bit products for this processor")


def _by_hand(folder: Path, text: str) -> np.ndarray:
    """Mean pooling as the model cards of sentence-transformers write it out."""
    from transformers import AutoModel, AutoTokenizer

    batch = AutoTokenizer.from_pretrained(folder)(text, return_tensors="pt", truncation=True, max_length=256)
    with torch.no_grad():
        hidden = AutoModel.from_pretrained(folder).float().eval()(**batch)[0]
    mask = batch["attention_mask"][:, :, None].float()
    mean = (hidden * mask).sum(1) / mask.sum(1)
    return torch.nn.functional.normalize(mean, dim=1).numpy()[0]


@pytest.fixture(scope="module")
def exact(minilm: Path) -> DenseTower:
    return DenseTower.load(str(minilm), dtype="fp32")


def test_vectors_equal_mean_pooling_by_hand(minilm: Path, exact: DenseTower) -> None:
    texts = [t for t in TEXTS if t.strip("\u200b") and len(t) < 999]
    found = exact.encode(texts).vectors
    wanted = np.stack([_by_hand(minilm, t) for t in texts])
    assert (found * wanted).sum(1).min() > 0.9999


def test_the_default_is_the_packaged_model(minilm: Path) -> None:
    tower = DenseTower.load()
    assert (tower.name, tower.dim, tower.max_length) == ("sentence-transformers/all-MiniLM-L6-v2", 384, 256)
    assert tower.sha256 == pretrained.DEFAULT_SHA256


def test_shapes_units_and_empty_texts(exact: DenseTower) -> None:
    found = exact.encode(TEXTS)
    assert found.vectors.shape == (len(TEXTS), 384)
    assert found.vectors.dtype == np.float32
    assert found.windows.dtype == np.float16
    assert found.ok.tolist() == [True, True, True, False, True, False, True]
    assert np.linalg.norm(found.vectors, axis=1) == pytest.approx(found.ok.astype(float), abs=1e-5)
    assert np.linalg.norm(found.windows.astype(np.float32), axis=1) == pytest.approx(1, abs=2e-3)
    assert np.diff(found.indptr)[1] > 1


def test_no_texts_at_all(exact: DenseTower) -> None:
    found = exact.encode([])
    assert found.vectors.shape == (0, 384)
    assert found.indptr.tolist() == [0]
    assert not exact.encode(["", " "]).vectors.any()


def test_bf16_stays_close_to_fp32(minilm: Path, exact: DenseTower) -> None:
    rough = DenseTower.load(str(minilm), dtype="bf16").encode(TEXTS)
    fine = exact.encode(TEXTS)
    assert (rough.vectors * fine.vectors).sum(1)[fine.ok].min() > 0.999


@needs_int8
def test_int8_stays_close_to_fp32_in_any_company(minilm: Path, exact: DenseTower) -> None:
    rough, fine = DenseTower.load(str(minilm), dtype="int8"), exact.encode(TEXTS)
    found = rough.encode(TEXTS)
    assert (found.vectors * fine.vectors).sum(1)[fine.ok].min() > 0.995
    for i in np.flatnonzero(found.ok):
        alone = rough.encode([TEXTS[i]]).vectors[0]
        assert alone @ found.vectors[i] > 0.9999


def test_a_text_has_its_vector_in_any_company(exact: DenseTower) -> None:
    together = exact.encode(TEXTS)
    for i in np.flatnonzero(together.ok):
        alone = exact.encode([TEXTS[i]])
        assert alone.vectors[0] == pytest.approx(together.vectors[i], abs=1e-5)


@pytest.mark.parametrize("dtype", ["fp32", pytest.param("int8", marks=needs_int8)])
def test_the_same_list_gives_the_same_bytes_with_any_number_of_threads(minilm: Path, dtype: str) -> None:
    texts = TEXTS * 5
    one, two = (DenseTower.load(str(minilm), threads=n, dtype=dtype).encode(texts) for n in (1, 2))
    assert one.vectors.tobytes() == two.vectors.tobytes()
    assert one.windows.tobytes() == two.windows.tobytes()


def test_threads_of_torch_are_left_alone(exact: DenseTower) -> None:
    before = torch.get_num_threads()
    exact.encode(TEXTS)
    assert torch.get_num_threads() == before


def test_the_end_of_a_long_document_counts(exact: DenseTower) -> None:
    start = "Fishing quotas for cod and herring in the North Sea. " * 60
    end = "Orbital mechanics of communication satellites. " * 60
    found = exact.encode([start, start + end, end])
    assert found.vectors[1] @ found.vectors[2] > found.vectors[0] @ found.vectors[2] + 0.2


def test_the_first_line_has_its_share(exact: DenseTower) -> None:
    title, body = "Orbital mechanics", "Fishing quotas for cod and herring in the North Sea."
    found = exact.encode([f"{title}\n{body}", f"{title} {body}", title])
    whole, lead = found.vectors[1:]
    wanted = (1 - LEAD_SHARE) * whole + LEAD_SHARE * lead
    assert found.vectors[0] @ wanted / np.linalg.norm(wanted) > 0.9999
    assert np.diff(found.indptr).tolist() == [1, 1, 1]  # its windows are those of the text


def test_weights_to_be_trained_are_written_in_the_place_of_the_given(minilm: Path, tmp_path: Path) -> None:
    tower = DenseTower.load(str(minilm), dtype="fp32")
    model, forward = tower.trainable()
    ids, counts = tokenise(tower.tokenizer, ["air transport", "fisheries"])
    windows = tower.windows(ids, counts, 32)
    vectors = forward.embed(*tower.laid(windows, np.arange(2)))
    assert vectors.requires_grad
    assert (vectors.detach().numpy() * tower.encode(["air transport", "fisheries"]).vectors).sum(
        1
    ).min() > 0.9999
    with torch.no_grad():
        next(model.parameters()).mul_(1.5)
    tower.save(tmp_path / "tuned", model)
    again = DenseTower.load(str(tmp_path / "tuned"), dtype="fp32")
    assert again.sha256 != tower.sha256
    with torch.no_grad():
        wanted = forward.embed(*tower.laid(windows, np.arange(2))).numpy()
    assert (again.encode(["air transport", "fisheries"]).vectors * wanted).sum(1).min() > 0.9999


def test_progress_counts_every_text_once(exact: DenseTower) -> None:
    seen: list[int] = []
    exact.encode(TEXTS, progress=seen.append)
    assert sum(seen) == len(TEXTS)


def test_saved_and_loaded_again(minilm: Path, tmp_path: Path) -> None:
    tower = DenseTower.load(str(minilm), max_length=64)
    tower.save(tmp_path / "kept")
    again = DenseTower.load(str(tmp_path / "kept"))
    assert (again.name, again.sha256, again.max_length) == (tower.name, tower.sha256, 64)
    assert again.encode(TEXTS).vectors.tobytes() == tower.encode(TEXTS).vectors.tobytes()


def test_shards_to_files(exact: DenseTower, tmp_path: Path) -> None:
    exact.encode_to(tmp_path, [TEXTS[:3], TEXTS[3:]])
    found, wanted = read_vectors(tmp_path), exact.encode(TEXTS)
    assert np.array_equal(found.indptr, wanted.indptr)
    assert np.allclose(found.vectors, wanted.vectors, atol=1e-5)


@pytest.mark.parametrize(
    ("kind", "config"),
    [
        ("BertModel", {}),
        ("RobertaModel", {"max_position_embeddings": 65}),
        ("XLMRobertaModel", {"max_position_embeddings": 65}),
        ("BertModel", {"hidden_act": "relu"}),
        ("DistilBertModel", {"dim": 32, "n_layers": 2, "n_heads": 4, "hidden_dim": 64}),
        ("T5Model", {}),
        ("T5EncoderModel", {}),
        ("BartModel", {"d_model": 32, "encoder_layers": 2, "decoder_layers": 1, "encoder_ffn_dim": 64}),
    ],
)
def test_any_encoder_gives_the_mean_of_its_own_token_vectors(
    tiny: Callable[..., Path], kind: str, config: dict[str, object]
) -> None:
    folder = tiny(kind, **config)
    text = "air transport law of the sea"
    found = DenseTower.load(str(folder), max_length=32, dtype="fp32").encode(["fisheries " * 90, text, "a"])
    ids = torch.tensor([[2, 5, 6, 7, 8, 9, 10, 3]])
    with torch.no_grad():
        mean = pretrained.load_model(folder)(input_ids=ids)[0][0].mean(0).numpy()
    assert found.vectors[1] == pytest.approx(mean / np.linalg.norm(mean), abs=1e-5)
    assert np.diff(found.indptr).tolist() == [6, 1, 1]


def test_the_first_token_is_taken_where_the_model_says_so(tiny: Callable[..., Path], tmp_path: Path) -> None:
    folder = tiny()
    (folder / "1_Pooling").mkdir()
    conf = '{"pooling_mode_cls_token": true, "pooling_mode_mean_tokens": false}'
    (folder / "1_Pooling" / "config.json").write_text(conf)
    tower = DenseTower.load(str(folder), dtype="fp32")
    with torch.no_grad():
        cls = pretrained.load_model(folder)(input_ids=torch.tensor([[2, 5, 3]]))[0][0, 0].numpy()
    assert tower.encode(["air", "air"]).vectors[1] == pytest.approx(cls / np.linalg.norm(cls), abs=1e-5)
    tower.save(tmp_path / "kept")
    assert DenseTower.load(str(tmp_path / "kept")).pooling == "cls"


def test_bin_weights_are_kept_as_safetensors(tiny: Callable[..., Path], tmp_path: Path) -> None:
    folder = tiny()
    torch.save(pretrained.load_model(folder).state_dict(), folder / "pytorch_model.bin")
    (folder / "model.safetensors").unlink()
    tower = DenseTower.load(str(folder))
    tower.save(tmp_path / "kept")
    again = DenseTower.load(str(tmp_path / "kept"))
    assert (tmp_path / "kept" / "model.safetensors").is_file()
    assert again.encode(["air"]).vectors.tobytes() == tower.encode(["air"]).vectors.tobytes()


def test_weights_that_are_pickled_code_are_not_run(tiny: Callable[..., Path], tmp_path: Path) -> None:
    class Trap:
        def __reduce__(self) -> tuple[object, tuple[str]]:
            return (Path(tmp_path / "sprung").mkdir, ())  # type: ignore[return-value]

    folder = tiny()
    torch.save({"embeddings": Trap()}, folder / "pytorch_model.bin")
    (folder / "model.safetensors").unlink()
    with pytest.raises(InputError):
        DenseTower.load(str(folder))
    assert not (tmp_path / "sprung").exists()


def _spoil(folder: Path, value: float) -> None:
    from safetensors.torch import load_file, save_file

    tensors = load_file(folder / "model.safetensors")
    tensors["embeddings.word_embeddings.weight"][15, 0] = value  # in the word "space"
    save_file(tensors, folder / "model.safetensors", metadata={"format": "pt"})


@pytest.mark.parametrize("dtype", ["fp32", "bf16", pytest.param("int8", marks=needs_int8)])
def test_nan_is_refused_with_the_names_of_the_texts(tiny: Callable[..., Path], dtype: str) -> None:
    folder = tiny()
    _spoil(folder, float("nan"))
    tower = DenseTower.load(str(folder), dtype=dtype)
    with pytest.raises(InputError, match=r"text '2', '3', also in fp32"):
        tower.encode(["air", "law", "space", "law space"])
    with pytest.raises(InputError, match="text 'd2'"):
        tower.encode(["air", "space"], names=["d1", "d2"])


def test_a_batch_that_overflows_is_computed_again_in_fp32(tiny: Callable[..., Path]) -> None:
    folder = tiny()
    _spoil(folder, 7e4)  # more than fp16 holds
    half, full = (DenseTower.load(str(folder), dtype=d).encode(["air", "space"]) for d in ("fp16", "fp32"))
    assert np.isfinite(half.vectors).all()
    assert half.vectors[1] == pytest.approx(full.vectors[1], abs=1e-5)


def test_weights_that_are_missing_are_not_drawn(tiny: Callable[..., Path]) -> None:
    from safetensors.torch import load_file, save_file

    folder = tiny()
    tensors = load_file(folder / "model.safetensors")
    del tensors["encoder.layer.1.output.dense.weight"]
    save_file(tensors, folder / "model.safetensors", metadata={"format": "pt"})
    with pytest.raises(InputError, match=r"lack 'encoder.layer.1.output.dense.weight'"):
        DenseTower.load(str(folder))


def _wrong(folder: Path, how: str) -> None:
    if how == "no config":
        (folder / "config.json").unlink()
    elif how == "no weights":
        (folder / "model.safetensors").unlink()
    elif how == "no tokenizer":
        (folder / "tokenizer.json").unlink()
    elif how == "cut weights":
        data = (folder / "model.safetensors").read_bytes()
        (folder / "model.safetensors").write_bytes(data[:-100])
    elif how == "cut tokenizer":
        (folder / "tokenizer.json").write_text('{"version": "1.0", ')
    elif how == "max pooling":
        (folder / "1_Pooling").mkdir()
        (folder / "1_Pooling" / "config.json").write_text('{"pooling_mode_max_tokens": true}')


@pytest.mark.parametrize(
    ("how", "message"),
    [
        ("no config", "config.json"),
        ("no weights", "safetensors"),
        ("no tokenizer", "tokenizer"),
        ("cut weights", "does not load"),
        ("cut tokenizer", "tokenizer"),
        ("max pooling", "mean or cls"),
    ],
)
def test_a_folder_that_is_no_encoder(tiny: Callable[..., Path], how: str, message: str) -> None:
    folder = tiny()
    _wrong(folder, how)
    with pytest.raises(InputError, match=message) as caught:
        DenseTower.load(str(folder))
    assert "\n" not in str(caught.value)
    assert folder.name in str(caught.value)


def test_a_decoder_is_refused(tiny: Callable[..., Path]) -> None:
    folder = tiny("GPT2LMHeadModel", n_embd=32, n_layer=1, n_head=4, bos_token_id=2, eos_token_id=3)
    with pytest.raises(InputError, match="decoder"):
        DenseTower.load(str(folder))


def test_another_models_tokenizer_is_refused(tiny: Callable[..., Path], minilm: Path) -> None:
    folder = tiny()
    shutil.copyfile(minilm / "tokenizer.json", folder / "tokenizer.json")
    with pytest.raises(InputError, match="30522 tokens"):
        DenseTower.load(str(folder))


@pytest.mark.parametrize("name", ["./nowhere", "/nowhere/at/all", "not a name !"])
def test_a_name_that_is_nothing(name: str) -> None:
    with pytest.raises(InputError):
        DenseTower.load(name)


def test_without_network(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    import huggingface_hub.constants

    monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_OFFLINE", True)
    with pytest.raises(ResourceError, match="network"):
        DenseTower.load("sentence-transformers/no-such-model-in-any-cache")


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"max_length": 0}, "max_length=0"),
        ({"max_length": 65}, "8 to 64"),
        ({"device": "tpu"}, "device=tpu"),
        ({"dtype": "int3"}, "dtype=int3: .* fp16, int8"),
    ],
)
def test_settings_that_are_not_possible(
    tiny: Callable[..., Path], settings: dict[str, object], message: str
) -> None:
    with pytest.raises(SettingError, match=message):
        DenseTower.load(str(tiny()), **settings)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("kind", "config"), [("T5EncoderModel", {}), ("BertModel", {"hidden_size": 30, "num_attention_heads": 3})]
)
def test_int8_needs_a_model_that_it_fits(
    tiny: Callable[..., Path], kind: str, config: dict[str, int]
) -> None:
    with pytest.raises(SettingError, match=r"dtype=int8: device=cpu, .* use dtype=auto"):
        DenseTower.load(str(tiny(kind, **config)), device="cpu", dtype="int8")


def test_a_gpu_that_is_not_there(tiny: Callable[..., Path]) -> None:
    with pytest.raises(ResourceError, match="cuda"):
        DenseTower.load(str(tiny()), device=f"cuda:{torch.cuda.device_count()}")


def test_the_fast_pass_equals_the_plain_one(minilm: Path, exact: DenseTower) -> None:
    plain = PaddedForward(pretrained.load_model(minilm), "mean", 256, "cpu", "fp32")
    lengths = np.array([256, 256, 131, 131, 130, 17, 5, 5])
    ids = np.random.default_rng(0).integers(1000, 20000, lengths.sum())
    assert exact._forward(ids, lengths) == pytest.approx(plain(ids, lengths), abs=1e-5)


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
@pytest.mark.parametrize("dtype", ["fp32", "bf16", "fp16"])
def test_gpu_equals_cpu(minilm: Path, exact: DenseTower, dtype: str) -> None:
    found, wanted = (
        DenseTower.load(str(minilm), device="cuda", dtype=dtype).encode(TEXTS),
        exact.encode(TEXTS),
    )
    assert (found.vectors * wanted.vectors).sum(1)[wanted.ok].min() > 0.999
