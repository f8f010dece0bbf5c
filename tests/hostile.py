"""Model folders that want to run code of their own, and the ways in which the book opens a model folder."""

import json
from pathlib import Path

from sameloss.book.pages import open_page
from sameloss.languages.pretrained import HubTeacherSpec

OWN_CODE = {"AutoConfig": "evil.Its", "AutoModelForCausalLM": "evil.Its", "AutoTokenizer": [None, "evil.Its"]}
LLAMA = {"hidden_size": 8, "intermediate_size": 8, "num_hidden_layers": 1, "num_attention_heads": 1}
VIT = {"model_type": "vit", "architectures": ["evil.Its"], "auto_map": OWN_CODE}

KINDS = {
    "own type": {"config.json": {"model_type": "evil", "auto_map": OWN_CODE}},
    "known type": {"config.json": {"auto_map": OWN_CODE}},
    "no causal type": {"config.json": VIT},
    "own tokenizer": {"tokenizer_config.json": {"tokenizer_class": "Its", "auto_map": OWN_CODE}},
    "own generation": {"generation_config.json": {"custom_generate": "."}},
}
"""What is changed in the files of a sound folder."""


def hostile_folder(kind: str, folder: Path, mark: Path) -> None:
    """Save a tiny model in a folder whose code would leave a mark."""
    import transformers
    from tokenizers import Tokenizer
    from tokenizers.models import WordLevel

    words = Tokenizer(WordLevel({name: i for i, name in enumerate("se" + "abcdefghijklmnop")}, unk_token="a"))
    tokenizer = transformers.PreTrainedTokenizerFast(tokenizer_object=words, bos_token="s", eos_token="e")
    tokenizer.save_pretrained(folder)
    config = transformers.LlamaConfig(vocab_size=18, **LLAMA)
    transformers.LlamaForCausalLM(config).save_pretrained(folder)
    for name, change in KINDS[kind].items():
        (folder / name).write_text(json.dumps(json.loads((folder / name).read_text()) | change))
    (folder / "custom_generate").mkdir()
    for path in (folder / "evil.py", folder / "custom_generate" / "generate.py"):
        path.write_text(f"open({str(mark)!r}, 'w').close()\n")


ENTRIES = {
    "config": lambda folder, store: HubTeacherSpec.of(folder, None).config(),
    "price": lambda folder, store: HubTeacherSpec.of(folder, None).token_flops,
    "build": lambda folder, store: HubTeacherSpec.of(folder, None, words=4, max_length=3).build(),
    "parameter": lambda folder, store: open_page(
        "02_existence", preset="smoke", language="opt", opt=folder, artifacts=store
    ).announce(),
}
"""Given the folder and that of the store."""
