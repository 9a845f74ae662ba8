//! Names and lines for the addresses of a guest's backtrace.

use std::path::Path;

use addr2line::Loader;
use anyhow::{Result, anyhow};

use crate::workspace;

/// The debug information of one image.
pub struct Symbols {
    loader: Loader,
}

impl Symbols {
    /// Reads the linked ELF file of an image.
    pub fn load(elf: &Path) -> Result<Symbols> {
        let loader =
            Loader::new(elf).map_err(|e| anyhow!("no symbols in {}: {e}", elf.display()))?;
        Ok(Symbols { loader })
    }

    /// The functions at a code address, innermost first, each as `name (file:line)`.
    pub fn at(&self, address: u64) -> Vec<String> {
        let mut found = Vec::new();
        if let Ok(mut frames) = self.loader.find_frames(address) {
            while let Ok(Some(frame)) = frames.next() {
                let name = frame.function.as_ref().and_then(|f| f.demangle().ok());
                let name = name.as_deref().unwrap_or("?").to_owned();
                found.push(match frame.location.and_then(|l| Some((l.file?, l.line?))) {
                    Some((file, line)) => format!("{name} ({}:{line})", short(file)),
                    None => name,
                });
            }
        }
        if found.is_empty()
            && let Some(symbol) = self.loader.find_symbol(address)
        {
            found.push(addr2line::demangle_auto(symbol.into(), None).into_owned());
        }
        found
    }
}

/// A source file without the folders that are the same for all: `core/src/ptr/mod.rs`, `talc-5.1.1/src/lib.rs`,
/// `kernel/src/memory.rs`.
fn short(file: &str) -> &str {
    let root = workspace::root();
    if let Ok(own) = Path::new(file).strip_prefix(&root) {
        return own.to_str().unwrap_or(file);
    }
    if let Some((_, own)) = file.split_once("/lib/rustlib/src/rust/library/") {
        return own;
    }
    match file.split_once("/registry/src/").and_then(|(_, rest)| rest.split_once('/')) {
        Some((_, own)) => own,
        None => file,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use object::{Object, ObjectSymbol};

    #[inline(never)]
    fn landmark() -> u32 {
        std::hint::black_box(7)
    }

    #[test]
    fn own_function_is_found_by_address() {
        landmark();
        assert_eq!(
            short("/r/.cargo/registry/src/index-1/talc-5.1.1/src/lib.rs"),
            "talc-5.1.1/src/lib.rs"
        );
        assert_eq!(short("/t/lib/rustlib/src/rust/library/core/src/cell.rs"), "core/src/cell.rs");
        assert_eq!(
            short(workspace::root().join("kernel/src/lib.rs").to_str().unwrap()),
            "kernel/src/lib.rs"
        );
        let path = std::env::current_exe().unwrap();
        let bytes = std::fs::read(&path).unwrap();
        let file = object::File::parse(&*bytes).unwrap();
        let symbol =
            file.symbols().find(|s| s.name().is_ok_and(|n| n.contains("landmark"))).unwrap();
        let names = Symbols::load(&path).unwrap().at(symbol.address());
        assert!(
            names.iter().any(|n| n.contains("landmark") && n.contains("symbols.rs:")),
            "{names:?}"
        );
    }
}
