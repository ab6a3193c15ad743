"""Tests of the example server."""
