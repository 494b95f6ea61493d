//! The manifest that an artifact of xla_wasm carries: JSON in a custom section of the module.

use std::collections::HashMap;

type Result<T> = std::result::Result<T, String>;

/// The values of a JSON document by their paths, as "parameters.0.name"; of a list or an object, how many it has.
pub struct Manifest(HashMap<String, String>);

impl Manifest {
    pub fn text(&self, path: &str) -> Result<&str> {
        self.0.get(path).map(String::as_str).ok_or_else(|| format!("the manifest is wrong at {path}: it is missing"))
    }

    pub fn number(&self, path: &str) -> Result<usize> {
        let text = self.text(path)?;
        text.parse().map_err(|_| format!("the manifest is wrong at {path}: expected a number, got {text}"))
    }
}

struct Reader<'a> {
    json: &'a [u8],
    at: usize,
    values: HashMap<String, String>,
}

impl Reader<'_> {
    /// Goes past the next byte, if it is this one. Manifests have no space between values.
    fn takes(&mut self, byte: u8) -> bool {
        let found = self.json.get(self.at) == Some(&byte);
        self.at += usize::from(found);
        found
    }

    fn need(&mut self, byte: u8) -> Result<()> {
        let at = self.at;
        self.takes(byte).then(|| ()).ok_or_else(|| format!("the manifest is damaged: no '{}' at its byte {at}", byte as char))
    }

    fn value(&mut self, path: &str, depth: usize) -> Result<()> {
        let object = self.takes(b'{');
        let value = if object || self.takes(b'[') {
            let mut count = 0;
            while depth < 20 && !self.takes(if object { b'}' } else { b']' }) {
                if count > 0 {
                    self.need(b',')?;
                }
                let key = if object { self.string()? } else { count.to_string() };
                if object {
                    self.need(b':')?;
                }
                self.value(&if path.is_empty() { key } else { format!("{path}.{key}") }, depth + 1)?;
                count += 1;
            }
            count.to_string()
        } else if self.json.get(self.at) == Some(&b'"') {
            self.string()?
        } else {
            let rest = &self.json[self.at.min(self.json.len())..];
            let word: Vec<u8> = rest.iter().copied().take_while(u8::is_ascii_alphanumeric).collect();
            self.at += word.len().max(1);
            String::from_utf8_lossy(&word).into_owned()
        };
        self.values.insert(path.to_string(), value);
        Ok(())
    }

    fn string(&mut self) -> Result<String> {
        let mut bytes = Vec::new();
        self.need(b'"')?;
        while !self.takes(b'"') {
            let byte = *self.json.get(self.at).ok_or("the manifest is damaged: it ends within a string")?;
            self.at += 1;
            if byte != b'\\' {
                bytes.push(byte);
                continue;
            }
            let escape = self.json.get(self.at).copied().unwrap_or(0);
            self.at += 1;
            bytes.push(match escape {
                b'b' => 8,
                b'f' => 12,
                b'n' => b'\n',
                b'r' => b'\r',
                b't' => b'\t',
                b'u' => {
                    // Only control characters are written so.
                    let digits = self.json.get(self.at..self.at + 4).and_then(|four| std::str::from_utf8(four).ok());
                    self.at += 4;
                    digits.and_then(|four| u8::from_str_radix(four, 16).ok()).ok_or("the manifest is damaged: a wrong escape")?
                }
                other => other,
            });
        }
        String::from_utf8(bytes).map_err(|_| "the manifest is damaged: it is not UTF-8".to_string())
    }
}

/// The manifest in a module's custom section "xla_wasm", if this host knows its format and what it needs. A section is a byte for
/// its kind, its size as LEB128, and its content; that of a custom section (kind 0) begins with the size and bytes of its name.
pub fn read(wasm: &[u8]) -> Result<Manifest> {
    if wasm.len() < 8 || &wasm[..8] != b"\0asm\x01\0\0\0" {
        return Err("this is not a WebAssembly module".to_string());
    }
    let mut at = 8;
    while at < wasm.len() {
        let (kind, mut size, mut shift) = (wasm[at], 0, 0);
        at += 1;
        while at < wasm.len() && shift < 35 {
            size |= usize::from(wasm[at] & 127) << shift;
            shift += 7;
            at += 1;
            if wasm[at - 1] < 128 {
                break;
            }
        }
        let content = wasm.get(at..at + size).ok_or("it is damaged: it ends within a section")?;
        if kind == 0 && content.starts_with(b"\x08xla_wasm") {
            let mut reader = Reader { json: &content[9..], at: 0, values: HashMap::new() };
            reader.value("", 0)?;
            let manifest = Manifest(reader.values);
            if manifest.number("format")? != 1 {
                return Err(format!("this host reads format 1, the artifact has {}: compile it again", manifest.text("format")?));
            }
            for i in 0..manifest.number("features")? {
                let feature = manifest.text(&format!("features.{i}"))?;
                if feature != "simd128" && feature != "relaxed-simd" {
                    return Err(format!("this host does not know the feature {feature}"));
                }
            }
            return Ok(manifest);
        }
        at += size;
    }
    Err("it has no section 'xla_wasm': it was not made by xla_wasm, or was stripped".to_string())
}
