"""Tests of the engine; they run without Qt."""
