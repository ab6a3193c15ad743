"""Tests of the example workload: `python -m unittest discover -s runner/tests -t .`."""
