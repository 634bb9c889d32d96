"""Tests: the same folders as the code. Helpers are imported as tests.engine.NAME."""
