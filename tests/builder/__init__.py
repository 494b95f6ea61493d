"""Modules made by hand."""
