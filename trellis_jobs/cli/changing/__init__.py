"""Change many jobs with one command.

targets (which) → look (how many) → consent → sweep (each of them) → tally (what became of them)
"""
