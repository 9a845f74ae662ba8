//! U-Boot's environment as it lies in flash: a checksum, then `NAME=VALUE` strings, an empty one at the end.
//!
//! Pure logic. Only the form without a second copy is known: one that has two carries a flag byte behind the checksum,
//! which is then wrong here, and nothing is written. [U-Boot, include/env_internal.h, env/common.c]

use alloc::vec::Vec;
use core::fmt;

use crc::{CRC_32_ISO_HDLC, Crc, NoTable};

/// Bytes of the checksum: CRC-32 as in zlib, little-endian as the processor.
const HEADER: usize = 4;
const CRC: Crc<u32, NoTable> = Crc::<u32, NoTable>::new(&CRC_32_ISO_HDLC);

/// Why an environment cannot be used or changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EnvironmentError {
    /// The checksum does not fit: never saved, damaged, or of the other form.
    Checksum,
    /// No empty string ends it.
    Unterminated,
    /// A name with `=` or NUL in it, or empty; a value with NUL in it.
    BadVariable,
    /// No room is left.
    Full,
}

impl fmt::Display for EnvironmentError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            EnvironmentError::Checksum => "bad CRC (never saved by U-Boot?)",
            EnvironmentError::Unterminated => "does not end",
            EnvironmentError::BadVariable => "not a name and a value it can hold",
            EnvironmentError::Full => "full",
        })
    }
}

/// An environment in memory. Invariant: the checksum fitted, and the strings end within.
pub struct Environment {
    bytes: Vec<u8>,
}

impl Environment {
    /// Takes an environment of the size it has in flash.
    pub fn parse(bytes: Vec<u8>) -> Result<Environment, EnvironmentError> {
        let (sum, data) = bytes.split_first_chunk().ok_or(EnvironmentError::Checksum)?;
        if CRC.checksum(data) != u32::from_le_bytes(*sum) {
            return Err(EnvironmentError::Checksum);
        }
        let environment = Environment { bytes };
        let end = environment.end();
        if environment.bytes.get(end) != Some(&0) {
            return Err(EnvironmentError::Unterminated);
        }
        Ok(environment)
    }

    /// What goes to flash.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// The variables, `NAME=VALUE`.
    pub fn variables(&self) -> impl Iterator<Item = &[u8]> {
        self.bytes[HEADER..].split(|byte| *byte == 0).take_while(|variable| !variable.is_empty())
    }

    /// The value of a variable.
    pub fn get(&self, name: &str) -> Option<&[u8]> {
        self.variables().find_map(|variable| value(variable, name))
    }

    /// Sets a variable, or removes it; whether that changed anything.
    pub fn set(&mut self, name: &str, new: Option<&str>) -> Result<bool, EnvironmentError> {
        let bad = |text: &str| text.contains('\0');
        if name.is_empty() || name.contains('=') || bad(name) || new.is_some_and(bad) {
            return Err(EnvironmentError::BadVariable);
        }
        if self.get(name) == new.map(str::as_bytes) {
            return Ok(false);
        }
        let mut strings = Vec::with_capacity(self.end());
        for variable in self.variables().filter(|variable| value(variable, name).is_none()) {
            strings.extend_from_slice(variable);
            strings.push(0);
        }
        if let Some(new) = new {
            strings.extend_from_slice(name.as_bytes());
            strings.push(b'=');
            strings.extend_from_slice(new.as_bytes());
            strings.push(0);
        }
        strings.push(0);
        // U-Boot may find an environment without a variable odd: it never writes one.
        let room = self.bytes.len() - HEADER;
        if strings.len() > room || strings.len() == 1 {
            return Err(EnvironmentError::Full);
        }
        // Behind the end stands what erased flash holds, so that as little as possible has to be programmed.
        strings.resize(room, 0xff);
        let sum = CRC.checksum(&strings).to_le_bytes();
        self.bytes[..HEADER].copy_from_slice(&sum);
        self.bytes[HEADER..].copy_from_slice(&strings);
        Ok(true)
    }

    /// Where the empty string is.
    fn end(&self) -> usize {
        HEADER + self.variables().map(|variable| variable.len() + 1).sum::<usize>()
    }
}

fn value<'a>(variable: &'a [u8], name: &str) -> Option<&'a [u8]> {
    variable.strip_prefix(name.as_bytes())?.strip_prefix(b"=")
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// `printf 'slot=b\nupgrade_available=1\nbootcount=2\n' | mkenvimage -s 512 -o environment.bin -`
    const FOREIGN: &[u8] = include_bytes!("testdata/environment.bin");
    /// The same with `-r`, for two copies.
    const REDUNDANT: &[u8] = include_bytes!("testdata/environment-redundant.bin");

    fn foreign() -> Environment {
        Environment::parse(FOREIGN.to_vec()).unwrap()
    }

    #[test]
    fn what_mkenvimage_made_is_read() {
        let environment = foreign();
        assert_eq!(environment.get("slot"), Some(&b"b"[..]));
        assert_eq!(environment.get("upgrade_available"), Some(&b"1"[..]));
        assert_eq!(environment.get("upgrade"), None);
        assert_eq!(environment.variables().count(), 3);
    }

    #[test]
    fn change_keeps_the_other_variables() {
        let mut environment = foreign();
        assert_eq!(environment.set("upgrade_available", Some("0")), Ok(true));
        assert_eq!(environment.set("bootcount", None), Ok(true));
        assert_eq!(environment.set("bootcount", None), Ok(false));
        assert_eq!(environment.set("slot", Some("b")), Ok(false));
        let again = Environment::parse(environment.bytes().to_vec()).unwrap();
        let variables: Vec<_> = again.variables().collect();
        assert_eq!(variables, [&b"slot=b"[..], b"upgrade_available=0"]);
        assert_eq!(again.bytes().len(), FOREIGN.len());
    }

    #[test]
    fn damaged_and_redundant_forms_are_refused() {
        let parse = |bytes: &[u8]| Environment::parse(bytes.to_vec()).err();
        assert_eq!(parse(REDUNDANT), Some(EnvironmentError::Checksum));
        assert_eq!(parse(&[0xff; 512]), Some(EnvironmentError::Checksum));
        assert_eq!(parse(&[]), Some(EnvironmentError::Checksum));
        let mut damaged = FOREIGN.to_vec();
        damaged[7] ^= 1;
        assert_eq!(parse(&damaged), Some(EnvironmentError::Checksum));
        let mut endless = b"....a=b".to_vec();
        let sum = CRC.checksum(&endless[4..]).to_le_bytes();
        endless[..4].copy_from_slice(&sum);
        assert_eq!(parse(&endless), Some(EnvironmentError::Unterminated));
    }

    #[test]
    fn what_does_not_fit_changes_nothing() {
        let mut environment = foreign();
        let long = "x".repeat(500);
        assert_eq!(environment.set("long", Some(&long)), Err(EnvironmentError::Full));
        for (name, new) in [("", "1"), ("a=b", "1"), ("a\0", "1"), ("a", "\0")] {
            assert_eq!(environment.set(name, Some(new)), Err(EnvironmentError::BadVariable));
        }
        assert_eq!(environment.bytes(), FOREIGN);
    }

    proptest! {
        #[test]
        fn any_bytes_do_no_harm(mut bytes in proptest::collection::vec(any::<u8>(), 0..64)) {
            if let Some((sum, data)) = bytes.split_first_chunk_mut::<4>() {
                *sum = CRC.checksum(data).to_le_bytes();
            }
            if let Ok(mut environment) = Environment::parse(bytes) {
                let _ = environment.set("name", Some("value"));
                prop_assert!(Environment::parse(environment.bytes().to_vec()).is_ok());
            }
        }
    }
}
