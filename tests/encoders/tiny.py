"""A tiny encoder with drawn weights, as a model folder."""

from __future__ import annotations

from pathlib import Path
from typing import Any

TEXT = "a air transport law of the sea fish ##eries budget annual space rocket"
WORDS = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", *TEXT.split()]


def tiny_model(folder: Path, kind: str = "BertModel", **config: Any) -> Path:
    """Writes a ``transformers`` model of that class with a tokenizer of ``WORDS`` into ``folder``."""
    _save_model(folder, kind, config)
    _save_tokenizer(folder)
    return folder


def _save_model(folder: Path, kind: str, config: dict[str, Any]) -> None:
    import torch
    import transformers

    sizes: dict[str, Any] = {
        "vocab_size": len(WORDS),
        "pad_token_id": 0,
        "hidden_size": 32,
        "num_hidden_layers": 2,
    }
    sizes |= {"num_attention_heads": 4, "intermediate_size": 64, "max_position_embeddings": 64}
    if kind.startswith("T5"):
        sizes = {"vocab_size": len(WORDS), "pad_token_id": 0, "d_model": 32, "d_ff": 64, "num_layers": 2}
        sizes |= {"num_heads": 4, "d_kv": 8, "decoder_start_token_id": 0}
    model_class = getattr(transformers, kind)
    torch.manual_seed(0)
    model = model_class(model_class.config_class(**(sizes | config)))
    model.save_pretrained(folder)


def _save_tokenizer(folder: Path) -> None:
    from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, processors

    tokenizer = Tokenizer(models.WordPiece({w: i for i, w in enumerate(WORDS)}, unk_token="[UNK]"))
    tokenizer.normalizer = normalizers.BertNormalizer()
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    tokenizer.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]", special_tokens=[("[CLS]", 2), ("[SEP]", 3)]
    )
    tokenizer.enable_truncation(8)  # as many models' files have it; the tower must not obey
    tokenizer.save(str(folder / "tokenizer.json"))
