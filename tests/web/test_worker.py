"""The digits worker of examples/worker as its README makes it: under workerd, as modules and as wrangler bundles
them."""

from __future__ import annotations

import gzip
import json
import re
import shutil
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from playwright.sync_api import Page, expect

import xla_wasm
from tests.support.bodies import JSON, NPY, NPZ, RAW, load_npy, load_npz, multipart, npy, npz
from tests.support.miniflare import EXAMPLES, FREE_PLAN, ask, bundle, post, serving
from tests.support.paths import ROOT
from xla_wasm import javascript

DIGITS = ROOT / "examples" / "digits"
IMAGES = np.load(DIGITS / "images.npy").astype(np.float32)[:, None, :, :, None] / 16
SIGNATURE = {
    "name": "jit_digits",
    "inputs": [{"name": "image", "type": "f32", "shape": [1, 8, 8, 1]}],
    "results": [{"name": "result", "type": "f32", "shape": [1, 10]}],
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The example after its build command, which wrangler runs; the bundle is in `bundle` beside."""
    root = tmp_path_factory.mktemp("examples")
    shutil.copytree(
        EXAMPLES / "digits",
        root / "worker" / "digits",
        ignore=shutil.ignore_patterns("model.*", "xla-wasm", ".wrangler"),
    )
    shutil.copytree(DIGITS, root / "digits")
    said = bundle(root / "worker" / "digits", root / "worker" / "bundle")
    assert "memory 0.2 MB of the 128 MB that a worker may have" in said
    return root / "worker" / "digits"


@pytest.fixture(scope="module")
def url(folder: Path) -> Iterator[str]:
    with serving(folder) as address:
        yield address


@pytest.fixture(scope="module")
def exe() -> Any:
    module = xla_wasm.HloModule.from_proto((DIGITS / "digits.hlo.pb").read_bytes())
    return xla_wasm.load(xla_wasm.compile(module))


def test_the_example_is_three_lines(folder: Path) -> None:
    lines = [line for line in (folder / "worker.js").read_text().splitlines() if line and not line.startswith("//")]
    assert len(lines) == 3
    assert "import wasm from './model.wasm';" in (folder / "model.js").read_text()


def test_every_form_gives_the_bits_of_the_python_host(url: str, exe: Any) -> None:
    for image in IMAGES[:40]:
        (want,) = exe.run(image)
        answers = {
            JSON: post(url, {"image": image.tolist()}),
            "flat": post(url, image.ravel().tolist()),
            NPY: post(url, image),
            NPZ: post(url, npz(image=image), NPZ),
            RAW: post(url, image.tobytes(), RAW),
        }
        assert [answer.status for answer in answers.values()] == [200] * len(answers), answers
        for name in (JSON, "flat"):
            assert np.array(answers[name].json["result"], np.float32).tobytes() == want.tobytes()
        assert (
            load_npy(answers[NPY].body).tobytes() == load_npz(answers[NPZ].body)["result"].tobytes() == want.tobytes()
        )
        assert answers[RAW].body == want.tobytes()


def test_the_bundle_answers_too(folder: Path, exe: Any) -> None:
    made = folder.parent / "bundle"
    code = b"".join(path.read_bytes() for path in made.iterdir() if path.suffix in (".js", ".wasm"))
    assert len(gzip.compress(code)) < FREE_PLAN
    with serving(folder, made) as address:
        assert post(address, IMAGES[0].tobytes(), RAW).body == exe.run(IMAGES[0])[0].tobytes()


def test_the_line_that_vercel_wants(folder: Path, tmp_path: Path, exe: Any) -> None:
    """The one line to change; wrangler takes this form as well, and bundles it."""
    worker = tmp_path / "worker"
    shutil.copytree(folder, worker, ignore=shutil.ignore_patterns("node_modules", ".wrangler"))
    script = (worker / "model.js").read_text()
    (instead,) = re.findall(r"^// Vercel's edge runtime wants it so: (import wasm from .*)$", script, re.MULTILINE)
    (worker / "model.js").write_text(script.replace("\nimport wasm from './model.wasm';", f"\n{instead}"))
    configuration = json.loads((worker / "wrangler.jsonc").read_text())
    del configuration["build"]
    (worker / "wrangler.jsonc").write_text(json.dumps(configuration))
    bundle(worker, tmp_path / "bundle")
    for path in (tmp_path / "bundle").glob("*module"):
        path.rename(path.with_name(path.name.replace("?module", "")))
    for path in (tmp_path / "bundle").glob("*.js"):
        path.write_text(path.read_text().replace(".wasm?module", ".wasm"))
    with serving(worker, tmp_path / "bundle") as address:
        assert post(address, IMAGES[0].tobytes(), RAW).body == exe.run(IMAGES[0])[0].tobytes()


def test_what_it_says_of_itself(url: str) -> None:
    answer = ask(url)
    assert answer.status == 200 and answer.json == SIGNATURE
    head = ask(url, method="HEAD")
    assert head.status == 200 and head.body == b"" and head.headers == answer.headers
    health = ask(url + "healthz")
    assert (health.status, health.body, health.headers["content-type"]) == (200, b"ok\n", "text/plain; charset=utf-8")
    assert ask(url, Accept="application/json, text/html;q=0.9").json == SIGNATURE
    page = ask(url, Accept="text/html,application/xhtml+xml,*/*;q=0.8")
    assert page.headers["content-type"] == "text/html; charset=utf-8" and page.headers["vary"] == "Accept"
    assert (
        b"<form" in page.body
        and b"<script" not in page.body
        and "default-src 'none'" in page.headers["content-security-policy"]
    )


def test_the_documents(url: str, folder: Path) -> None:
    """The worker of docs/web.md is the example, and what the example's README shows is what comes back."""
    document, readme = (ROOT / "docs" / "web.md").read_text(), (EXAMPLES / "README.md").read_text()
    (shown,) = [block for block in re.findall(r"```js\n(.*?)```", document, re.DOTALL) if "export default" in block]
    lines = (folder / "worker.js").read_text().splitlines()
    assert [re.sub(" //.*", "", line) for line in shown.splitlines()] == [
        line for line in lines if not line.startswith("//")
    ]
    answers = [json.loads(line) for line in readme.splitlines() if line.startswith("{")]
    assert answers == [ask(url).json, post(url, [1, 2, 3]).json]
    (command,) = re.findall(r"^\$ (xla-wasm compile .*)$", readme, re.MULTILINE)
    assert json.loads((folder / "wrangler.jsonc").read_text())["build"]["command"] == command
    # The version that build.sh installs for the tests.
    (version,) = re.findall(r"wrangler@([\d.]+)", (ROOT / "build.sh").read_text())
    assert json.loads((EXAMPLES / "package.json").read_text())["devDependencies"] == {"wrangler": version}
    (error,) = re.findall(r'```json\n(\{"error": .*?)```', (ROOT / "docs" / "serving.md").read_text(), re.DOTALL)
    wrong = post(url, {"image": [0] * 63})
    assert (
        "serving.md#routes" in document
        and wrong.json.keys() == {"error"}
        and wrong.error.keys() == json.loads(error)["error"].keys()
    )


def test_addresses_and_methods(url: str) -> None:
    for path in ("model", "healthz/", "metrics", "%2e%2e/x"):
        answer = ask(url + path)
        assert answer.status == 404 and path.removeprefix("%2e%2e/") in answer.error["message"]
    for path, methods, wrong in (
        ("", "GET, HEAD, POST", "PUT DELETE PATCH OPTIONS"),
        ("healthz", "GET, HEAD", "POST PUT"),
    ):
        for method in wrong.split():
            answer = ask(url + path, method=method)
            assert answer.status == 405 and answer.headers["allow"] == methods and method in answer.error["message"]


def test_errors_name_the_field(url: str) -> None:
    for body, given in (
        ([0] * 63, "f32[63]"),
        ({"image": np.zeros((1, 8, 8)).tolist()}, "f32[1,8,8]"),
        (IMAGES[:2, 0], "f32[2,8,8,1]"),
        (IMAGES[0].astype(complex), "c128[1,8,8,1]"),
    ):
        answer = post(url, body)
        assert answer.status == 422
        assert {"field": "image", "expected": "f32[1,8,8,1]", "given": given}.items() <= answer.error.items()
    assert post(url, {"picture": 1}).error["field"] == "picture"
    assert "encoded as 'gzip'" in post(url, gzip.compress(b"[]"), Content_Encoding="gzip").error["message"]
    assert post(url, b"image=1", "application/x-www-form-urlencoded").status == 415
    assert post(url, [0] * 64, Accept="image/png").status == 406


def test_bodies_that_are_too_large(url: str) -> None:
    """By what is stated, and, of a body whose length is not, by what comes."""
    for type_, size in (
        (RAW, 257),
        (JSON, 200_000),
        (NPY, 200_000),
        (NPZ, 200_000),
        ("multipart/form-data; boundary=x", 200_000),
    ):
        answer = ask(url, bytes(size), Content_Type=type_)
        assert answer.status == 413 and f"has {size} bytes" in answer.error["message"], (type_, answer)
    chunked: Any = iter([b" " * 50_000] * 6)
    answer = ask(url, chunked, "POST", Content_Type=JSON)
    assert answer.status == 413 and "has more than" in answer.error["message"]
    spaces: Any = iter([b"[" + b" " * 50_000, b"0," * 63, b"0]"])
    assert ask(url, spaces, "POST", Content_Type=JSON).status == 200


def test_200_requests_at_once(url: str, exe: Any) -> None:
    images = [IMAGES[i % len(IMAGES)] + np.float32(i) for i in range(200)]
    forms = (lambda x: post(url, x.tobytes(), RAW).body, lambda x: load_npy(post(url, x).body).tobytes())
    with ThreadPoolExecutor(200) as pool:
        got = list(pool.map(lambda pair: forms[pair[0] % 2](pair[1]), enumerate(images)))
    assert got == [exe.run(image)[0].tobytes() for image in images]


def test_malformed_bodies(url: str, exe: Any) -> None:
    """Bodies of every form, cut short anywhere and with bytes changed: refused as what they are, and the worker goes on
    as before."""
    image = IMAGES[0]
    form, form_type = multipart([("image", "i.npy", "application/octet-stream", npy(image))])
    text = json.dumps({"image": image.tolist()}).encode()
    bodies = {
        JSON: text,
        NPY: npy(image),
        NPZ: npz(image=image),
        "application/zip": npz(True, image=image),
        RAW: image.tobytes(),
    }
    bodies[form_type] = form
    rng = np.random.default_rng(11)
    counts = {"cut": 0, "changed": 0}
    for type_, body in bodies.items():
        assert post(url, body, type_).status == 200
        for at in sorted({*rng.integers(0, len(body) - 4, 40), 0, 1, len(body) // 2, len(body) - 5}):
            answer = post(url, body[:at], type_)
            assert answer.status == (422 if type_ == RAW and at % 4 == 0 else 400), (type_, at, answer)
            assert answer.error["message"]
            counts["cut"] += 1
        for _ in range(60):
            changed = bytearray(body)
            for place in rng.integers(0, len(body), rng.integers(1, 9)):
                changed[place] = rng.integers(256)
            answer = post(url, bytes(changed), type_)
            # Changed numbers are numbers too.
            assert answer.status in (200, 400, 413, 415, 422), (type_, answer)
            assert answer.status == 200 or answer.error["message"]
            counts["changed"] += 1
    assert counts["cut"] > 200 and counts["changed"] == 360
    assert ask(url + "healthz").body == b"ok\n"
    assert post(url, image.tobytes(), RAW).body == exe.run(image)[0].tobytes()


def test_the_page(page: Page, url: str, exe: Any, tmp_path: Path) -> None:
    """Numbers in the field, then a file instead: the answer comes into the frame, errors too."""
    complaints: list[str] = []
    page.on("console", lambda message: complaints.append(message.text))
    page.goto(url)
    expect(page.get_by_role("heading", level=1)).to_have_text("jit_digits")
    answer = page.frame_locator("iframe").locator("body")
    want = [str(round(float(value), 2)) for value in exe.run(IMAGES[0])[0].ravel()]

    def check() -> None:
        expect(answer).to_contain_text('{"result":[[')
        got = json.loads(answer.inner_text())["result"][0]
        assert [str(round(value, 2)) for value in got] == want

    field = page.get_by_label("image: 64 numbers")
    field.fill(" ".join(map(str, IMAGES[0].ravel())))
    page.get_by_role("button", name="Run").click()
    check()
    field.fill("1 2 3")
    page.get_by_role("button", name="Run").click()
    expect(answer).to_contain_text("input 'image' must be f32[1,8,8,1]; got f32[3]")
    field.fill("")
    np.save(tmp_path / "image.npy", IMAGES[0])
    page.get_by_label("or a file").set_input_files(tmp_path / "image.npy")
    page.get_by_role("button", name="Run").click()
    check()
    assert not [text for text in complaints if "422" not in text]


def test_peak_memory_is_stated() -> None:
    """By the command, and what to do where it is too much."""
    shape = "f32[4096,4096]{1,0}"
    module = f"HloModule m\n\nENTRY e {{\n  x = {shape} parameter(0)\n  ROOT r = {shape} negate(x)\n}}\n"
    said = javascript.memory(xla_wasm.compile(xla_wasm.HloModule.from_text(module)))
    assert re.fullmatch(
        r"memory 1\d\d\.\d MB of the 128 MB that a worker may have: hosts will end it\. Smaller .*", said
    ), said
