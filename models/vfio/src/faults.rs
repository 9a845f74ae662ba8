//! Faults of a card, by name: what every model's `--fault` understands.
//!
//! A rate of `n` is one in `n`, drawn from the seed; 0 is never.

use std::fmt;

/// A fault was not understood.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnknownFault(pub String);

impl fmt::Display for UnknownFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "fault {:?}: want NAME, RATE-NAME=ONE-IN-N or TIME-NAME=MILLISECONDS", self.0)
    }
}

impl std::error::Error for UnknownFault {}

/// Draws whether a fault of this rate happens now.
pub fn strikes(random: &mut fastrand::Rng, rate: u32) -> bool {
    rate != 0 && random.u32(0..rate) == 0
}

/// Declares a model's `Faults`, each with its kind, and the parser that knows them by name: comma-separated names as
/// the fields spell them, with `-` for `_`, all but switches with `=value`.
///
/// Kinds: `switch` (on by its name alone), `rate` (one in so many), `count`, `time` (in milliseconds, not 0), or a type
/// that is `Default` and parses by itself.
#[macro_export]
macro_rules! faults {
    ($( $(#[$doc:meta])* $name:ident: $kind:ident, )*) => {
        /// The switches. `Default` is a healthy card that takes the likelier reading everywhere.
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
        pub struct Faults { $( $(#[$doc])* pub $name: $crate::faults!(@type $kind), )* }

        impl Faults {
            fn set(&mut self, name: &str, value: &str) -> Option<()> {
                if name.contains('_') {
                    return None;
                }
                match name.replace('-', "_").as_str() {
                    $( stringify!($name) => self.$name = $crate::faults!(@parse $kind, value), )*
                    _ => return None,
                }
                Some(())
            }
        }

        impl std::str::FromStr for Faults {
            type Err = $crate::UnknownFault;

            /// Comma-separated names as the fields spell them, with `-` for `_`; all but switches with
            /// `=value`.
            fn from_str(text: &str) -> Result<Faults, $crate::UnknownFault> {
                let mut faults = Faults::default();
                for item in text.split(',').filter(|item| !item.is_empty()) {
                    let (name, value) = item.split_once('=').unwrap_or((item, ""));
                    faults
                        .set(name, value)
                        .ok_or_else(|| $crate::UnknownFault(item.to_string()))?;
                }
                Ok(faults)
            }
        }
    };
    (@type switch) => { bool };
    (@type rate) => { u32 };
    (@type count) => { u32 };
    (@type time) => { std::time::Duration };
    (@type $type:ident) => { $type };
    (@parse switch, $value:ident) => { if $value.is_empty() { true } else { return None } };
    (@parse time, $value:ident) => {
        std::time::Duration::from_millis($value.parse().ok().filter(|&ms| ms > 0)?)
    };
    (@parse $other:ident, $value:ident) => { $value.parse().ok()? };
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rate_is_one_in_n() {
        let mut random = fastrand::Rng::with_seed(1);
        let hits = (0..100_000).filter(|_| strikes(&mut random, 100)).count();
        assert!((850..1150).contains(&hits), "{hits}");
        assert!((0..1000).all(|_| !strikes(&mut random, 0)));
        assert!((0..1000).all(|_| strikes(&mut random, 1)));
    }
}
