//! Names and lines for the addresses of a guest's backtrace.

use std::path::Path;

use addr2line::Loader;
use anyhow::{Result, anyhow};

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
                    Some((file, line)) => format!("{name} ({file}:{line})"),
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
