"""The loop IR: its operations, texts, checks, and what emits it."""
