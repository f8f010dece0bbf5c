"""Model sizes by name.

The paper's names (Table 3) count BERT's embedding of 30,522 rows, of which about 200 are ever used; Appendix
A.3 of the book has the true counts. The sizes of presets below `gpu` are ours and are named by their width.
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
"""Transformers, by family of presets and name."""

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
"""Bidirectional LSTMs: the paper's names (29M is not among them), and ours by width."""

LADDER: dict[str, EncoderShape] = {
    f"d{d}": EncoderShape(d, d // 64, layers, 4 * d)
    for d, layers in [(128, 4), (192, 5), (320, 6), (384, 7), (640, 12), (960, 16), (1920, 20)]
}
"""Table 4 of the ICML text: every width divides the last, in which App. B.1 embeds all models."""

PRINTED_D_INTER = (512, 768, 1024, 2048, 3072, 4096, 5120)
"""d_inter as printed in Table 4: not embeddable, because d_inter has to grow by the ratio of the widths.

`LADDER` has d_inter = 4 d_model, as App. B.1 says.
"""
