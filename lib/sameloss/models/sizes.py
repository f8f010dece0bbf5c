"""The registry of size names.

The paper's names (Table 3) count BERT's 30,522-row embedding, of which about 200 rows are ever
used; every table of the book shows the true count beside the name. The laptop's and the smoke
preset's sizes are ours and are named by their true count.
"""

from sameloss.models.encoder import EncoderShape

SIZES: dict[str, dict[str, EncoderShape]] = {
    "smoke": {
        "1K": EncoderShape(8, 1, 1, 16),
        "3K": EncoderShape(16, 2, 1, 32),
    },
    "laptop": {
        "7K": EncoderShape(16, 2, 2, 64),
        "27K": EncoderShape(32, 2, 2, 128),
        "106K": EncoderShape(64, 2, 2, 256),
    },
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
"""Size names by family."""
