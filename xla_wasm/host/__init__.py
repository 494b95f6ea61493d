"""Hosts: what runs an artifact. They know the manifest and nothing of HLO or of the compiler."""
