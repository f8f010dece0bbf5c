"""What is fetched: asked for once, found again in the cache, known by its commit or its content."""

import os

import pytest

from sameloss import hub
from sameloss.errors import LanguageError, ParameterError
from sameloss.hub import fingerprint_of, load_or_explain


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
    seen = load_or_explain("it", "opt", "no-such/model", lambda: hub.constants.HF_HUB_OFFLINE)
    assert seen is not answers
    assert fake.asked == [(hub.constants.ENDPOINT, hub.PATIENCE)]
    assert hub.constants.HF_HUB_OFFLINE is False


def test_for_a_folder_the_hub_is_not_asked(monkeypatch, tmp_path):
    fake = FakeHub(answers=False)
    monkeypatch.setattr(hub.huggingface_hub, "get_session", lambda: fake)
    assert load_or_explain("it", "opt", str(tmp_path), lambda: hub.constants.HF_HUB_OFFLINE) is False
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


@pytest.mark.parametrize("kind", [LanguageError, ParameterError])
def test_what_fails_is_one_sentence_of_the_kind_asked_for(tmp_path, kind):
    with pytest.raises(kind, match=r"^Cannot load the cats \(ZeroDivisionError\); .* parameter `data`\.$"):
        load_or_explain("the cats", "data", str(tmp_path), lambda: 1 / 0, kind)


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
