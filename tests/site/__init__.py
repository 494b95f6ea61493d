"""The server of the demo pages."""
