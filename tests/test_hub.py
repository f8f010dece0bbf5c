"""What is fetched: asked for once, found again in the cache, known by its commit or its content."""

import os

import pytest

from sameloss import hub
from sameloss.errors import LanguageError, ParameterError
from sameloss.hub import explained, fingerprint_of


@pytest.fixture(autouse=True)
def no_network(monkeypatch):
    """Whatever the machine's network, nothing is reached."""
    monkeypatch.setattr(hub.constants, "ENDPOINT", "http://127.0.0.1:9")


class FakeHub:
    """A session that notes what it is asked, with the patience for each; it answers or it does not."""

    def __init__(self, answers):
        self.answers, self.asked = answers, []

    def head(self, address, timeout):
        self.asked.append((address, timeout))
        if not self.answers:
            raise TimeoutError


@pytest.mark.parametrize("answers", [True, False])
def test_the_hub_is_asked_once_with_patience_and_left_alone_where_it_does_not_answer(monkeypatch, answers):
    fake = FakeHub(answers)
    monkeypatch.setattr(hub.huggingface_hub, "get_session", lambda: fake)
    with explained("it", "opt", "no-such/model"):
        assert hub.constants.HF_HUB_OFFLINE is not answers
    assert fake.asked == [(hub.constants.ENDPOINT, hub.PATIENCE)]
    assert hub.constants.HF_HUB_OFFLINE is False


def test_for_a_folder_the_hub_is_not_asked(monkeypatch, tmp_path):
    fake = FakeHub(answers=False)
    monkeypatch.setattr(hub.huggingface_hub, "get_session", lambda: fake)
    with explained("it", "opt", str(tmp_path)):
        assert hub.constants.HF_HUB_OFFLINE is False
    assert not fake.asked


def test_where_the_hub_does_not_answer_the_commit_is_that_of_the_cache(monkeypatch, tmp_path):
    monkeypatch.setattr(hub.constants, "HF_HUB_CACHE", str(tmp_path))
    assert hub.commit_of("facebook/opt-125m", "model") is None
    folder = tmp_path / "models--facebook--opt-125m"
    for commit in ("c3", "a1"):
        (folder / "snapshots" / commit).mkdir(parents=True)
    (folder / "refs").mkdir()
    (folder / "refs" / "main").write_text("a1")
    assert hub.commit_of("facebook/opt-125m", "model") == "a1"
    assert hub.commit_of(str(tmp_path), "model") is None


class PanicException(BaseException):
    """As the tokenizers library raises it."""


@pytest.mark.parametrize(
    ("error", "reason"),
    [
        (OSError("no weights.\nYou can make some. Ask."), "OSError: no weights"),
        (ZeroDivisionError(), "ZeroDivisionError"),
        (PanicException("retry-limit-in-match over"), "PanicException: retry-limit-in-match over"),
        (
            ValueError("x.py ... pass `trust_remote_code=True`"),
            "it needs code of its own, which is never run",
        ),
    ],
)
@pytest.mark.parametrize("kind", [LanguageError, ParameterError])
def test_what_fails_is_one_sentence_of_the_kind_asked_for_with_the_reason(tmp_path, kind, error, reason):
    for source, remedy in {
        str(tmp_path): "put that right, or change",
        "a/b": "give a local folder in",
    }.items():
        with pytest.raises(kind) as seen, explained("the cats", "data", source, kind):
            raise error
        assert str(seen.value) == f"Cannot load the cats ({reason}); {remedy} the parameter `data`."


@pytest.mark.parametrize("kind", [KeyboardInterrupt, SystemExit])
def test_an_interruption_is_no_fault_of_what_is_loaded(tmp_path, kind):
    with pytest.raises(kind), explained("the cats", "data", str(tmp_path)):
        raise kind


def test_a_fingerprint_is_of_contents(tmp_path):
    assert fingerprint_of([]) is None
    (tmp_path / "a").mkdir()
    (tmp_path / "a" / "file").write_text("1")
    before = fingerprint_of([tmp_path])
    assert before == fingerprint_of([tmp_path / "a"])
    (tmp_path / "a" / "file").write_text("2")
    assert fingerprint_of([tmp_path]) != before


def test_what_cannot_be_read_is_not_the_same_as_nothing(tmp_path, monkeypatch):
    with pytest.raises(LanguageError, match=r"absent cannot be read \(No such file or directory\)\.$"):
        fingerprint_of([tmp_path / "absent"])
    (tmp_path / "locked").mkdir()
    scandir = os.scandir

    def refused(folder):
        if os.fspath(folder).endswith("locked"):  # to root, who runs some tests, no folder is locked
            raise PermissionError(13, "Permission denied", str(folder))
        return scandir(folder)

    monkeypatch.setattr(os, "scandir", refused)
    with pytest.raises(LanguageError, match=r"locked cannot be read \(Permission denied\)\.$"):
        fingerprint_of([tmp_path])


def test_a_mistyped_folder_is_not_read_to_its_end(tmp_path, monkeypatch):
    monkeypatch.setattr(hub, "MOST_FILES", 3)
    for name in "abc":
        (tmp_path / name).touch()
    assert fingerprint_of([tmp_path])
    (tmp_path / "d").touch()
    with pytest.raises(LanguageError, match=r"has more than 3 files; give one that holds nothing else\.$"):
        fingerprint_of([tmp_path])
