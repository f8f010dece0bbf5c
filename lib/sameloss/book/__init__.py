"""Pages: how a chapter begins and ends, what it costs, how the book is built and scaled out.

Here stands what every chapter calls, the estimate before and the record after a computation, the build
of notebooks and HTML, and the grid of many runs. The book may import everything; nothing imports the
book. No result is computed here that a study could compute.
"""

import gc
import warnings

# Libraries and figures make many objects and hardly any garbage: as often as is usual, looking for it takes
# a third of the time of a page's imports.
gc.set_threshold(20_000)

# A library's progress bar asks for the widgets of a notebook, which no page can show, and where there are
# none, it names a folder of this machine.
warnings.filterwarnings("ignore", message="IProgress not found")
