"""The loader in JavaScript and what it runs in: Node, Deno, Bun, browsers, workers at the edge, Pyodide."""
