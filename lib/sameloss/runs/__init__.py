"""The stored steps of masked-language-model experiments, which studies share.

A run here is a frozen dataclass that binds a function of the layers below (sampling, training, a measure)
to the store: its fields are all that decides the result, and its `schema` is raised when its code changes
the result. What only one paper needs stands with that paper in `studies`. A run knows no preset and no
page.
"""
