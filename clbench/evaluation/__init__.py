"""Evaluation: items in, outcomes out."""
