"""What chapters call, cost estimates, records, the build of notebooks and HTML, and grids of runs."""

import gc
import warnings

# Imports create many objects and hardly any garbage: at the default threshold, collecting it takes a third
# of a page's import time.
gc.set_threshold(20_000)

# tqdm warns where ipywidgets is missing, with a path of this machine; no page can show widgets anyway.
warnings.filterwarnings("ignore", message="IProgress not found")
