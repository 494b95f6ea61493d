"""The language: protos and text, types, literals, layouts, and the verifier."""
