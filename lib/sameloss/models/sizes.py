"""The registry of size names.

The paper's names (Table 3) count BERT's embedding of 30,522 rows, of which about 200 are ever used; every
table of the book shows the true count beside the name. The sizes of the presets below `gpu` are ours
and are named by their width.
"""

from sameloss.models.bilstm import BiLSTMShape
from sameloss.models.encoder import EncoderShape

SIZES: dict[str, dict[str, EncoderShape]] = {
    "laptop": {f"d{d}": EncoderShape(d, 2, 3, 4 * d) for d in (8, 16, 24, 32, 48, 64, 96)},
    "paper": {
        "2M": EncoderShape(64, 1, 1, 256),
        "5M": EncoderShape(128, 2, 4, 512),
        "9M": EncoderShape(192, 3, 5, 768),
        "13M": EncoderShape(256, 4, 6, 1024),
        "41M": EncoderShape(512, 8, 8, 2048),
        "110M": EncoderShape(768, 12, 12, 3072),
        "235M": EncoderShape(1024, 16, 16, 4096),
        "430M": EncoderShape(1280, 20, 20, 5120),
        "730M": EncoderShape(1536, 24, 24, 6144),
    },
}
"""Transformers: the shapes by name, one dictionary for each family of presets."""

LSTM_SIZES: dict[str, dict[str, BiLSTMShape]] = {
    "laptop": {f"lstm{d}": BiLSTMShape(d, layers=2) for d in (16, 32, 64)},
    "paper": {
        "4M": BiLSTMShape(128, 4),
        "10M": BiLSTMShape(256, 6),
        "29M": BiLSTMShape(512, 8),
        "67M": BiLSTMShape(768, 12),
        "135M": BiLSTMShape(1024, 16),
    },
}
"""Bidirectional LSTMs: the paper's names (it names no 29M), and ours by their width."""

LADDER: dict[str, EncoderShape] = {
    f"d{d_model}": EncoderShape(d_model, heads, layers, 4 * d_model)
    for d_model, heads, layers in [
        (128, 2, 4),
        (192, 3, 5),
        (320, 5, 6),
        (384, 6, 7),
        (640, 10, 12),
        (960, 15, 16),
        (1920, 30, 20),
    ]
}
"""Table 4 of the ICML text: every width divides the last, into which App. B.1 embeds them all."""

PRINTED_D_INTER = (512, 768, 1024, 2048, 3072, 4096, 5120)
"""Table 4's d_inter: it cannot embed, because d_inter has to grow by the ratio of the widths.

App. B.1 itself says d_inter = 4 d_model, which `LADDER` has.
"""
