"""What passes make of a module."""
