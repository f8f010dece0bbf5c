"""Display names of tasks, algorithms and columns."""

import re

NAMES = {
    "root": "task A",
    "span16": "task B",  # symbol above the first half of a sentence, at the paper's scale
    "span4": "task B",  # in sentences of eight tokens
    "span2": "task B",  # of four
    "span8": "task C",
    "next": "next word",
    "adamw": "AdamW",
    "adversarial": "adversary",
    "sgd-noise": "label noise",
    "penalty-after": "flattened",
    "sharpen-after": "sharpened",
    "sam": "SAM",
    "trace-penalty": "trace penalty",
    "weight-decay": "weight decay",
    "mask-rate": "random masks",
    "post-ln": "post-LN",
    "standard_error": "s.e.",
    "text": "check",
    "printed": "as printed",
    "passed": "agrees",
    "core_s": "core seconds",
    "d_model": "d_model",
    "d_inter": "d_inter",
    "printed d_inter": "printed d_inter",
}

_UNITS = {"s": "(s)", "ms": "(ms)", "h": "(h)", "gb": "(GB)"}


def display_name(name: str) -> str:
    """Display name of a task, algorithm or model: that of a model is its width.

    >>> [display_name(name) for name in ("root", "state5", "adversarial, λ = 0.3", "235M")]
    ['task A', 'state 5', 'adversary, λ = 0.3', '235M']
    >>> [display_name(name) for name in ("d24", "lstm16")]
    ['d = 24', 'LSTM, d = 16']
    """
    first, comma, strength = name.partition(", ")
    if first in NAMES:
        return NAMES[first] + comma + strength
    words = {"d": "d =", "lstm": "LSTM, d ="}
    return re.sub(r"^(span|state|d|lstm)(\d+)$", lambda m: f"{words.get(m[1], m[1])} {m[2]}", name)


def column_head(name: str) -> str:
    """Display name of a column, with its unit.

    >>> [column_head(name) for name in ("measured_s", "peak_gb", "error_few", "span4", "d_model")]
    ['measured (s)', 'peak (GB)', 'error few', 'task B', 'd_model']
    """
    if name in NAMES:
        return NAMES[name]
    words, _, unit = name.rpartition("_")
    return f"{column_head(words)} {_UNITS[unit]}" if unit in _UNITS else display_name(name).replace("_", " ")
