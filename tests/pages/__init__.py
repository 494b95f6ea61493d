"""The demo pages and the playground as people use them."""
