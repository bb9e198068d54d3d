"""Benchmarks: run with ``make bench``. The only place that imports PyTorch."""
