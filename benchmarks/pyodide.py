"""Compiling the digits model in Pyodide in Chromium beside CPython, in turns.

    ./build.sh pyodide && .venv/bin/python -m benchmarks.pyodide

The first compilation, imports included, is in a fresh interpreter each; the others are minima over all turns.
"""

from __future__ import annotations

import base64
import subprocess
import sys
import threading
import time
from pathlib import Path

from playwright.sync_api import Page, sync_playwright

import xla_wasm
from xla_wasm.site.serve import make_server

from .chromium import launch

ROOT = Path(__file__).parents[1]
MODEL = ROOT / "examples" / "digits" / "digits.hlo.pb"
TURNS, RUNS = 20, 5
FIRST = """
import time
begin = time.perf_counter()
import xla_wasm
xla_wasm.compile(xla_wasm.HloModule.from_proto(DATA))
seconds = time.perf_counter() - begin
"""
AGAIN = f"""
import time
def once():
    begin = time.perf_counter()
    xla_wasm.compile(xla_wasm.HloModule.from_proto(DATA))
    return time.perf_counter() - begin
seconds = min(once() for _ in range({RUNS}))
"""
START = """async (data) => {
  const { loadPyodide } = await import('/pyodide/pyodide.mjs');
  const begin = performance.now();
  const folder = `${location.origin}/pyodide/`;
  globalThis.python = await loadPyodide({ indexURL: folder, lockFileURL: `${folder}pyodide-lock.json` });
  await python.loadPackage('xla-wasm', { messageCallback: () => {} });
  const seconds = (performance.now() - begin) / 1000;
  python.globals.set('data', Uint8Array.from(atob(data), (c) => c.charCodeAt(0)));
  python.runPython('DATA = data.to_bytes()');
  return seconds;
}"""


def main() -> None:
    """Measures and prints."""
    data = MODEL.read_bytes()
    fresh = f"DATA = open({str(MODEL)!r}, 'rb').read()\n{FIRST}\nprint(seconds)"
    with make_server("127.0.0.1", 0) as server, sync_playwright() as playwright:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        browser = launch(playwright)
        site = f"http://127.0.0.1:{server.server_address[1]}"

        def page_with_pyodide() -> tuple[Page, float]:
            page = browser.new_context().new_page()
            page.route("**/blank.html", lambda route: route.fulfill(body="<!doctype html>", content_type="text/html"))
            page.goto(f"{site}/blank.html")
            return page, page.evaluate(START, base64.b64encode(data).decode())

        firsts: dict[str, list[float]] = {"CPython": [], "Pyodide": [], "load": []}
        for _ in range(3):
            firsts["CPython"].append(
                float(subprocess.run([sys.executable, "-c", fresh], capture_output=True, text=True, check=True).stdout)
            )
            page, loaded = page_with_pyodide()
            firsts["load"].append(loaded)
            firsts["Pyodide"].append(page.evaluate("code => python.runPython(code)", f"{FIRST}\nseconds"))
        best = {"CPython": float("inf"), "Pyodide": float("inf")}
        scope: dict[str, object] = {"DATA": data, "xla_wasm": xla_wasm}
        for _ in range(TURNS):
            exec(AGAIN, scope)
            best["CPython"] = min(best["CPython"], float(str(scope["seconds"])))
            best["Pyodide"] = min(best["Pyodide"], page.evaluate("code => python.runPython(code)", f"{AGAIN}\nseconds"))
            time.sleep(0.05)
        browser.close()
        server.shutdown()
    first = {name: min(times) for name, times in firsts.items()}
    print(f"digits, CPython {sys.version.split()[0]} and Pyodide in Chromium, minima:")
    for what, times in (("first compilation, imports included", first), ("later ones", best)):
        python, pyodide = times["CPython"], times["Pyodide"]
        print(f"  {what}: {python * 1e3:.1f} ms and {pyodide * 1e3:.1f} ms: {pyodide / python:.1f} times")
    print(f"  loading Pyodide and the wheel: {first['load']:.2f} s")


if __name__ == "__main__":
    main()
