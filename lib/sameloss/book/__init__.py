"""Pages: how a chapter begins and ends, what it costs, how the book is built and scaled out.

Here stands what every chapter calls, the estimate before and the record after a computation, the build
of notebooks and HTML, and the grid of many runs. The book may import everything; nothing imports the
book. No result is computed here that a study could compute.
"""
