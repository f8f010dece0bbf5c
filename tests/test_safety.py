"""Nothing that is read can run code: no pickle from a disk that others may write, no shell, no eval."""

import ast
from collections.abc import Iterator

import pytest
from library import parsed, sources

PICKLES = {
    "runs/torchrun.py",  # in a folder that its user alone can open, see test_torchrun.py
}
"""The modules that read pickles, none of which lies in a store, in a record or in a reader's folder."""

READ_CODE = {"eval", "exec", "compile", "read_pickle", "trust_remote_code", "shell"}
"""Functions, and arguments that may be given no other value than False, by which data become code."""


def calls(source: str) -> Iterator[tuple[str, dict[str, ast.expr]]]:
    """Yield the calls of a module: what is called, as it is written, and its named arguments."""
    for node in ast.walk(parsed(source)):
        if isinstance(node, ast.Call):
            yield ast.unparse(node.func), {word.arg: word.value for word in node.keywords if word.arg}


def is_true(value: ast.expr | None) -> bool:
    return isinstance(value, ast.Constant) and value.value is True


def what_runs_code(name: str, arguments: dict[str, ast.expr]) -> str | None:
    """Return what in a call could run code that is read, or None.

    >>> what_runs_code("torch.load", {}), what_runs_code("model.eval", {})
    ('torch.load', None)
    """
    if name == "torch.load":
        return None if is_true(arguments.get("weights_only")) else name
    if name in READ_CODE or name.split(".")[-1] in READ_CODE - {"eval", "compile"}:
        return name
    given = [word for word in ("allow_pickle", "trust_remote_code", "shell") if word in arguments]
    return next((f"{name}({word})" for word in given if is_true(arguments[word])), None)


@pytest.mark.parametrize("source", sources())
def test_nothing_that_is_read_can_run_code(source):
    found = [what for call in calls(source) if (what := what_runs_code(*call))]
    if source == "book/run.py":  # executes a chapter, as Jupyter does
        found = [what for what in found if what not in ("exec", "eval", "compile")]
    assert not found, f"{source} calls {', '.join(found)}."


def test_pickles_are_read_where_nobody_else_writes():
    readers = {
        source
        for source in sources()
        for name, _ in calls(source)
        if name in ("pickle.load", "pickle.loads", "pickle.Unpickler", "joblib.load")
    }
    assert readers == PICKLES


@pytest.mark.parametrize(
    ("name", "arguments"),
    [
        ("torch.load", "weights_only=False"),
        ("torch.load", "map_location=x"),
        ("np.load", "allow_pickle=True"),
        ("pd.read_pickle", ""),
        ("eval", ""),
        ("subprocess.run", "shell=True"),
        ("AutoModel.from_pretrained", "trust_remote_code=True"),
    ],
)
def test_what_runs_code_is_seen(name, arguments):
    call = ast.parse(f"{name}(x, {arguments})").body[0].value
    assert what_runs_code(name, {word.arg: word.value for word in call.keywords})
