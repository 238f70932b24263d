"""Changes of many jobs that the daemons carry out (docs/adr/0010-operations.md).

operation (states and moves, pure) ← records (under compare-and-set) ← page_work (the jobs of one
page) ← run (one operation, page by page) ← runner (which operations this daemon runs)
"""
