"""Papers, and parts of papers that stand alone: one folder each, and what they share.

A study has its mathematics (`theory`), its configuration and runs (`experiment`), `claims` or `statements`,
`tables`, `figures` and `pages`; studies do not import each other. The modules beside the folders are what all
of them are written in: what a page may set, verdicts on published numbers, statements judged by checks, the
style of figures. Those know no study.
"""
