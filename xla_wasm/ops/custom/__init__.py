"""Custom calls, by the name of their target; what a target computes is in the family it belongs to."""
