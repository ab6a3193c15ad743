"""Tests of the hook: `python -m unittest discover -s launcher/hook/tests -t launcher/hook`.

Those that need torch, transformers or a C compiler are skipped, visibly, where these are missing.
"""
