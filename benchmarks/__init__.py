"""How fast Amends is beside things that do less, on the same machine in the same run.

Nothing here asserts: `python -m benchmarks` prints one table and writes `results/latest.json`.
Every figure is a median, and what counts is the ratio to something measured in turn with it.
"""
