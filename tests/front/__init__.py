"""Artifacts that are programs or servers by themselves."""
