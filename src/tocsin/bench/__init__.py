"""Benchmarks: the workloads of the papers and of users, rivals, one runner, one JSON shape.

Every benchmark is a module with a function ``run(...) -> Report`` whose `quick` size ends within 60 seconds.
"""
