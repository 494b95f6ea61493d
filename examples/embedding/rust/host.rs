//! Runs an artifact of xla_wasm in Rust, without crates: capi.rs calls wasmtime's C API, manifest.rs reads the manifest. README.md
//! has the command lines; docs/embedding.md says what has to be done, and why in this order. For little-endian machines.

mod capi;
mod manifest;

use capi::Instance;
use manifest::Manifest;
use std::fs::File;
use std::io::{self, Read, Write};
use std::{env, fs, path::Path, process};

type Result<T> = std::result::Result<T, String>;

/// An array in the module's memory.
struct Array {
    name: String,
    kind: String,
    at: usize,
    bytes: usize,
    init: Option<usize>,
}

impl Array {
    fn size(&self) -> String {
        format!("the {} bytes of '{}'", self.bytes, self.name)
    }
}

/// The arrays of a list. This host writes and reads no sizes, and is one device.
fn read_arrays(manifest: &Manifest, list: &str) -> Result<Vec<Array>> {
    let mut arrays = Vec::new();
    for path in (0..manifest.number(list)?).map(|i| format!("{list}.{i}")) {
        let field = |key: &str| format!("{path}.{key}");
        let name = manifest.text(&field("name"))?.to_string();
        if manifest.text(&field("sizes")).is_ok() {
            return Err(format!(
                "'{name}' has dynamic dimensions, and this host writes and reads no sizes: see docs/embedding.md"
            ));
        }
        if manifest.number(&field("shards.starts")).map_or(false, |devices| devices > 1) {
            return Err(format!("'{name}' is divided among several devices, and this host is one"));
        }
        let init = manifest.number(&field("init")).ok();
        let at = match init {
            Some(i) => manifest.number(&format!("inits.{i}.staging"))?,
            None => manifest.number(&field("offset"))?,
        };
        arrays.push(Array {
            name,
            kind: manifest.text(&field("kind"))?.to_string(),
            at,
            bytes: manifest.number(&field("bytes"))?,
            init,
        });
    }
    Ok(arrays)
}

/// The module with its manifest.
struct Model {
    manifest: Manifest,
    instance: Instance,
}

impl Model {
    /// Runs on, to the end (0) or to a request.
    fn run(&mut self) -> Result<i32> {
        let outcome = self.instance.call(self.instance.run, None);
        outcome.map_err(|why| {
            // The module keeps the number of its step where a host finds it after a trap.
            let step = self.manifest.number("config").and_then(|at| self.instance.word(at)).unwrap_or(0);
            let name = self.manifest.text(&format!("steps.names.{step}")).unwrap_or("no step");
            format!("the module failed in step {step}, '{name}': {why}")
        })
    }

    /// Fills an array from a file, which has to hold so many bytes.
    fn fill(&mut self, array: &Array, source: &mut dyn Read, path: &str) -> Result<()> {
        let place = self.instance.bytes(array.at, array.bytes)?;
        let mut got = 0;
        while got < place.len() {
            match source.read(&mut place[got..]).map_err(|why| format!("{path}: {why}"))? {
                0 => return Err(format!("{path}: it ends after {got} of the {} bytes of '{}'", place.len(), array.name)),
                count => got += count,
            }
        }
        match array.init {
            Some(i) => self.call_init(i),
            None => Ok(()),
        }
    }

    fn call_init(&mut self, entry: usize) -> Result<()> {
        let index = self.manifest.number(&format!("inits.{entry}.index"))?;
        self.instance.call(self.instance.init, Some(index as i32)).map(|_| ())
    }

    /// Large constants from the .weights file, and what else `init` makes ready, in the order of the list. Of the file the size is
    /// checked, not the SHA-256 of each constant, which the manifest has too.
    fn prepare_constants(&mut self, path: &str) -> Result<()> {
        let path = Path::new(path).with_extension("weights");
        let mut weights = None;
        for i in 0..self.manifest.number("inits")? {
            let field = |key: &str| format!("inits.{i}.{key}");
            let kind = self.manifest.text(&field("kind"))?.to_string();
            if kind == "sidecar" {
                if weights.is_none() {
                    weights = Some(fs::read(&path).map_err(|why| format!("{}: {why}", path.display()))?);
                }
                let [at, size, from] = ["staging", "bytes", "sidecar_offset"].map(|key| self.manifest.number(&field(key)));
                let (at, size, from) = (at?, size?, from?);
                let part = weights.as_ref().and_then(|all| all.get(from..from.checked_add(size)?));
                let part = part.ok_or_else(|| format!("{}: it is cut short, or of another module", path.display()))?;
                self.instance.bytes(at, size)?.copy_from_slice(part);
            }
            if kind != "weight" {
                self.call_init(i)?;
            }
        }
        Ok(())
    }

    /// Serves the request that a run waits for: an infeed takes from one file, an outfeed puts into another.
    fn serve(&mut self, infeed: &mut Option<File>, outfeed: &mut Option<File>) -> Result<()> {
        let at = self.manifest.number("request")?;
        let path = format!("requests.{}", self.instance.word(at)?);
        let field = |key: &str| format!("{path}.{key}");
        match (self.manifest.text(&field("kind"))?, infeed, outfeed) {
            ("infeed", Some(file), _) => {
                let arrays = read_arrays(&self.manifest, &field("results"))?;
                arrays.iter().try_for_each(|array| self.fill(array, file, "the infeed"))
            }
            ("outfeed", _, Some(file)) => {
                let arrays = read_arrays(&self.manifest, &field("operands"))?;
                arrays.iter().try_for_each(|array| put(file, self.instance.bytes(array.at, array.bytes)?, "the outfeed"))
            }
            (kind, ..) => {
                let (name, target) = (self.manifest.text(&field("name"))?, self.manifest.text(&field("target")).unwrap_or(""));
                Err(format!("'{name}' asks for {kind} {target}: this host serves --infeed=FILE and --outfeed=FILE"))
            }
        }
    }
}

fn put(file: &mut dyn Write, bytes: &[u8], path: &str) -> Result<()> {
    file.write_all(bytes).and_then(|()| file.flush()).map_err(|why| format!("{path}: {why}"))
}

fn open(path: &str) -> Result<File> {
    File::open(path).map_err(|why| format!("{path}: {why}"))
}

fn ended(source: &mut dyn Read, path: &str, what: &str) -> Result<()> {
    let more = source.read(&mut [0]).map_err(|why| format!("{path}: {why}"))?;
    if more == 0 {
        Ok(())
    } else {
        Err(format!("{path}: it has more than {what}"))
    }
}

fn main_with(arguments: &[String]) -> Result<()> {
    let path = arguments
        .get(1)
        .ok_or("usage: host MODEL.wasm [--runs=N] [--infeed=FILE] [--outfeed=FILE] [NAME=FILE ...] < inputs > results")?;
    let wasm = fs::read(path).map_err(|why| format!("{path}: {why}"))?;
    let manifest = manifest::read(&wasm).map_err(|why| format!("{path}: {why}"))?;
    if manifest.number("devices.least").map_or(false, |least| least > 1) {
        return Err(format!("{path}: it runs on several devices, and this host is one"));
    }
    let (parameters, results) = (read_arrays(&manifest, "parameters")?, read_arrays(&manifest, "results")?);
    let known = |name: &str| ["--runs", "--infeed", "--outfeed"].contains(&name) || parameters.iter().any(|p| p.name == name);
    let mut options = Vec::new();
    for argument in &arguments[2..] {
        // Names may have equals signs of their own.
        let cut = argument.match_indices('=').map(|(i, _)| i).find(|i| known(&argument[..*i]));
        let cut = cut.ok_or_else(|| format!("{argument}: there is no such option, input, weight or state"))?;
        options.push((&argument[..cut], &argument[cut + 1..]));
    }
    let option = |name: &str| options.iter().find(|(given, _)| *given == name).map(|(_, value)| *value);
    let instance = Instance::new(&wasm, manifest.number("pages")? << 16).map_err(|why| format!("{path}: {why}"))?;
    let mut model = Model { manifest, instance };

    model.prepare_constants(path)?;
    for held in parameters.iter().filter(|p| p.kind != "input") {
        // A weight must be set, a state begins with zeros.
        if let Some(given) = option(&held.name) {
            let mut file = open(given)?;
            model.fill(held, &mut file, given)?;
            ended(&mut file, given, &held.size())?;
        } else if held.kind == "weight" {
            return Err(format!("weight '{}' has not been set: give {0}=FILE, {} bytes", held.name, held.bytes));
        }
    }
    let mut infeed = option("--infeed").map(open).transpose()?;
    let create = |given: &str| File::create(given).map_err(|why| format!("{given}: {why}"));
    let mut outfeed = option("--outfeed").map(create).transpose()?;
    let runs = option("--runs").unwrap_or("1");
    let count =
        runs.parse().ok().filter(|count: &usize| *count > 0).ok_or_else(|| format!("--runs={runs}: it must be 1 or more"))?;
    for _ in 0..count {
        for input in parameters.iter().filter(|p| p.kind == "input") {
            if let Some(given) = option(&input.name) {
                let mut file = open(given)?;
                model.fill(input, &mut file, given)?;
                ended(&mut file, given, &input.size())?;
            } else {
                model.fill(input, &mut io::stdin(), "standard input")?;
            }
        }
        while model.run().map_err(|why| format!("{path}: {why}"))? != 0 {
            model.serve(&mut infeed, &mut outfeed)?;
        }
        for output in results.iter().filter(|r| r.kind == "output") {
            put(&mut io::stdout(), model.instance.bytes(output.at, output.bytes)?, "standard output")?;
        }
    }
    if parameters.iter().any(|p| p.kind == "input" && option(&p.name).is_none()) {
        ended(&mut io::stdin(), "standard input", "the inputs of these runs")?;
    }
    Ok(())
}

fn main() {
    if let Err(why) = main_with(&env::args().collect::<Vec<_>>()) {
        eprintln!("error: {why}");
        process::exit(1);
    }
}
