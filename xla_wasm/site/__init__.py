"""The site of demo pages: its files, its server, and the models that it shows.

Nothing outside of this package knows a page or a model by name.
"""
