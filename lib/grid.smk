# A grid of runs: one executed chapter for each language x size x number of seeds.
#
#   snakemake -s lib/grid.smk --cores 8 --resources gpu=2 \
#       --config preset=gpu sizes=5M,13M seeds=3
#
# `python -m sameloss.book.grid` checks the whole grid before anything starts and has all defaults.
# Runs live in the store: what two cells share, or a kill left behind, is never computed twice.

import json
import os
import subprocess
from pathlib import Path

from snakemake.exceptions import WorkflowError

ROOT = Path(workflow.basedir).parent
# Snakemake may have an environment of its own; the chapters need the book's.
os.environ["PATH"] = f"{ROOT / '.venv' / 'bin'}:{os.environ['PATH']}"


def checked(given):
    """Return the grid with its cells; refuse in one sentence one that cannot be run."""
    words = {"artifacts": ROOT / "artifacts", **given}
    words = [f"{k}={','.join(map(str, v)) if isinstance(v, list) else v}" for k, v in words.items()]
    answer = subprocess.run(["python", "-m", "sameloss.book.grid", *words], capture_output=True, text=True)
    if answer.returncode:
        raise WorkflowError(answer.stderr.strip())
    return json.loads(answer.stdout)


GRID = checked(config)
CELL = GRID["folder"] + "/{preset}/{language}/{size}/seeds-{seeds}"


rule all:
    input:
        [f"{GRID['folder']}/{cell}.ipynb" for cell in GRID["cells"]],


rule existence:
    input:
        ROOT / "chapters" / "02_existence.ipynb",
    output:
        f"{CELL}.ipynb",
    log:
        f"{CELL}.log",
    params:
        unfinished=f"{CELL}.unfinished.ipynb",
    threads: GRID["workers"]
    resources:
        gpu=1,
    shell:
        "python -m sameloss.store.processes papermill --no-progress-bar --log-output --cwd {ROOT:q}"
        " {input:q} {params.unfinished:q} -p preset {wildcards.preset:q} -p language {wildcards.language:q}"
        " -p size {wildcards.size:q} -p seeds {wildcards.seeds:q}"
        " -p steps {GRID[steps]:q} -p max_hours {GRID[max_hours]:q} -p workers {threads}"
        " -p artifacts {GRID[artifacts]:q} > {log:q} 2>&1"
        " && mv {params.unfinished:q} {output:q}"
