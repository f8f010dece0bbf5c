"""A clone on a machine that is unlike the one of its authors."""

import os
import subprocess
import sys
from pathlib import Path

import nbformat
import pytest
from campaign.commands import cloned
from campaign.limits import NOBODY

PAGE = Path("chapters/ii2_stability.ipynb")


def a_stingy_user():
    """Give the process that begins one core, and files that nobody else may read."""
    os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
    os.umask(0o077)


@pytest.mark.book
def test_a_chapter_is_executed_whatever_the_folder_its_owner_the_locale_and_the_cores(tmp_path):
    (tmp_path / "Müller's book").mkdir()
    clone = cloned(tmp_path / "Müller's book", [PAGE.stem])
    if os.getuid() == 0:
        subprocess.run(["chown", "-R", str(NOBODY), clone], check=True)  # then git tells root nothing of it
    done = subprocess.run(
        [sys.executable, "-m", "sameloss.book.build", "execute", "--preset", "smoke", "--max-hours", "100"],
        cwd=clone,
        env={"PATH": os.environ["PATH"], "PYTHONPATH": str(clone / "lib"), "LANG": "C"},
        preexec_fn=a_stingy_user,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    made = nbformat.read(clone / "_build" / "executed" / PAGE, as_version=4)
    assert all(cell.execution_count for cell in made.cells if cell.cell_type == "code" and cell.source)
    assert made.metadata.sameloss.preset == "smoke"
    assert len(list((clone / "artifacts").glob("*/*/manifest.json"))) > 10
