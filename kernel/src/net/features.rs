//! Switching a card's features by name: at the console, and by boot arguments.

use alloc::string::{String, ToString};
use alloc::vec::Vec;
use core::fmt;

use trireme_nic::{Feature, FeatureError, Nic};

use crate::arguments::Setting;

/// Why a setting had no effect.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SettingError {
    /// Neither a feature nor a private flag of the card has this name.
    Unknown,
    /// Neither `on` nor `off`.
    Value,
    /// The driver refused.
    Refused(FeatureError),
}

impl fmt::Display for SettingError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (before, what) = match self {
            SettingError::Unknown => ("", "no such feature"),
            SettingError::Value => ("", "neither on nor off"),
            SettingError::Refused(FeatureError::Fixed) => ("", "fixed on this card"),
            SettingError::Refused(FeatureError::Timeout) => {
                ("", "the card did not answer and was reset")
            }
            SettingError::Refused(FeatureError::Requires(other)) => ("requires ", other.name()),
        };
        f.write_str(before)?;
        f.write_str(what)
    }
}

/// Switches a feature by its long or short name.
pub fn set_feature(nic: &mut dyn Nic, name: &str, value: &str) -> Result<(), SettingError> {
    let feature = Feature::by_name(name).ok_or(SettingError::Unknown)?;
    nic.set_feature(feature, on(value)?).map_err(SettingError::Refused)
}

/// What `on` and `off` say.
pub fn on(value: &str) -> Result<bool, SettingError> {
    match value {
        "on" => Ok(true),
        "off" => Ok(false),
        _ => Err(SettingError::Value),
    }
}

/// The settings of the boot arguments that no card has taken yet.
#[derive(Default)]
pub struct Settings(Vec<(String, String, String)>);

impl Settings {
    /// Keeps what the arguments say.
    pub fn new(list: &[Setting<'_>]) -> Settings {
        let keep = |s: &Setting<'_>| (s.card.to_string(), s.name.to_string(), s.value.to_string());
        Settings(list.iter().map(keep).collect())
    }

    /// Does to a new card what is said of it, in the order it was said. What cannot be done is told on the console.
    pub fn apply(&mut self, card: &str, nic: &mut dyn Nic) {
        self.0.retain(|(of, name, value)| {
            if of != card {
                return true;
            }
            let mut result = set_feature(nic, name, value);
            if result == Err(SettingError::Unknown) {
                result = on(value).and_then(|on| {
                    nic.set_private_flag(name, on).then_some(()).ok_or(SettingError::Unknown)
                });
            }
            if let Err(error) = result {
                log::warn!("{card}.{name}={value}: {error}; ignored");
            }
            false
        });
    }

    /// Those for cards that are not there.
    pub fn unused(&self) -> impl Iterator<Item = &(String, String, String)> {
        self.0.iter()
    }
}
