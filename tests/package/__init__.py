"""The project: packages, imports, options, and which tests run."""
