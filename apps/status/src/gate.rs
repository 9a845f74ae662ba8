//! Who may switch: whoever knows the token. Wrong ones are counted, and few of them are looked at.

use std::time::{Duration, Instant};

use subtle::ConstantTimeEq;

/// The environment variable that holds the token: on an appliance the boot argument `env.TRIREME_STATUS_TOKEN=…`. Set while
/// the program is compiled, it is the token of images booted without one. Without either, nothing can be switched.
pub const TOKEN: &str = "TRIREME_STATUS_TOKEN";
const BUILT_IN: Option<&str> = option_env!("TRIREME_STATUS_TOKEN");

/// Shortest token in characters: shorter ones are guessed, however slowly.
const LEAST_LENGTH: usize = 8;
/// Wrong tokens in a row before the next has to wait.
const BURST: u32 = 5;
/// How long until one more is looked at.
const PAUSE: Duration = Duration::from_secs(10);

/// What became of an attempt to switch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    Open,
    /// This machine has no token.
    Shut,
    Missing,
    Wrong,
    /// Too many were wrong: this one was not looked at.
    Limited,
}

/// Compares tokens.
///
/// The limit is on all callers together, since addresses are cheap. So who keeps guessing also keeps the owner out, who
/// has the console.
pub(crate) struct Gate {
    token: Option<Vec<u8>>,
    /// Wrong tokens that may still come.
    allowance: u32,
    /// When the allowance last grew.
    since: Instant,
    pub(crate) missing: u64,
    pub(crate) wrong: u64,
    pub(crate) limited: u64,
}

/// A token that cannot be one.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Unusable;

impl Gate {
    /// With the token of the environment or of the build.
    pub(crate) fn from_environment(now: Instant) -> Gate {
        let given = std::env::var(TOKEN).ok().or_else(|| BUILT_IN.map(str::to_owned));
        Gate::new(given.filter(|token| !token.is_empty()), now).unwrap_or_else(|Unusable| {
            eprintln!(
                "{TOKEN} is not taken: a token is {LEAST_LENGTH} characters or more, visible ones of ASCII"
            );
            Gate::with(None, now)
        })
    }

    pub(crate) fn new(token: Option<String>, now: Instant) -> Result<Gate, Unusable> {
        // What a field of a request can hold, and a client puts there as it is.
        let usable = |token: &String| {
            token.len() >= LEAST_LENGTH && token.bytes().all(|byte| byte.is_ascii_graphic())
        };
        match token {
            Some(token) if !usable(&token) => Err(Unusable),
            token => Ok(Gate::with(token.map(String::into_bytes), now)),
        }
    }

    fn with(token: Option<Vec<u8>>, now: Instant) -> Gate {
        Gate { token, allowance: BURST, since: now, missing: 0, wrong: 0, limited: 0 }
    }

    /// There is a token.
    pub(crate) fn can_open(&self) -> bool {
        self.token.is_some()
    }

    /// Judges the value of an Authorization field. [RFC 6750 2.1]
    pub(crate) fn judge(&mut self, authorization: Option<&[u8]>, now: Instant) -> Verdict {
        let Some(token) = &self.token else { return Verdict::Shut };
        let offered = match authorization.and_then(|value| value.split_at_checked(7)) {
            Some((scheme, rest)) if scheme.eq_ignore_ascii_case(b"Bearer ") => rest.trim_ascii(),
            _ => {
                self.missing += 1;
                return Verdict::Missing;
            }
        };
        let earned = now.saturating_duration_since(self.since).as_secs() / PAUSE.as_secs();
        if earned > 0 {
            self.allowance = BURST.min(self.allowance.saturating_add(earned.min(100) as u32));
            self.since = now;
        }
        if self.allowance == 0 {
            self.limited += 1;
            return Verdict::Limited;
        }
        // Tells an observer of time the length, and nothing else.
        if bool::from(token.ct_eq(offered)) {
            return Verdict::Open;
        }
        self.allowance -= 1;
        self.wrong += 1;
        Verdict::Wrong
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn gate(now: Instant) -> Gate {
        Gate::new(Some("correct-horse".to_owned()), now).unwrap()
    }

    #[test]
    fn only_the_token_opens() {
        let now = Instant::now();
        for (value, verdict) in [
            ("Bearer correct-horse", Verdict::Open),
            ("bearer correct-horse", Verdict::Open),
            ("Bearer correct-hors", Verdict::Wrong),
            ("Bearer correct-horsf", Verdict::Wrong),
            ("Bearer correct-horse2", Verdict::Wrong),
            ("Bearer ", Verdict::Wrong),
            ("Basic correct-horse", Verdict::Missing),
            ("correct-horse", Verdict::Missing),
            ("", Verdict::Missing),
        ] {
            assert_eq!(gate(now).judge(Some(value.as_bytes()), now), verdict, "{value:?}");
        }
        assert_eq!(gate(now).judge(None, now), Verdict::Missing);
    }

    #[test]
    fn without_a_token_nothing_opens() {
        let now = Instant::now();
        let mut gate = Gate::new(None, now).unwrap();
        assert_eq!(gate.judge(Some(b"Bearer "), now), Verdict::Shut);
        assert!(!gate.can_open());
    }

    #[test]
    fn weak_and_unsendable_tokens_are_refused() {
        for token in ["short", "with a space", "with\ttab", "pässword"] {
            assert!(Gate::new(Some(token.to_owned()), Instant::now()).is_err(), "{token:?}");
        }
    }

    #[test]
    fn guessing_is_slowed_down_and_counted() {
        let start = Instant::now();
        let mut gate = gate(start);
        for _ in 0..BURST {
            assert_eq!(gate.judge(Some(b"Bearer guess-guess"), start), Verdict::Wrong);
        }
        assert_eq!(gate.judge(Some(b"Bearer guess-guess"), start), Verdict::Limited);
        // Or the limit would tell right from wrong.
        assert_eq!(gate.judge(Some(b"Bearer correct-horse"), start), Verdict::Limited);
        assert_eq!((gate.wrong, gate.limited), (5, 2));
        let later = start + PAUSE;
        assert_eq!(gate.judge(Some(b"Bearer guess-guess"), later), Verdict::Wrong);
        assert_eq!(gate.judge(Some(b"Bearer guess-guess"), later), Verdict::Limited);
        // A day of patience buys no more than the first burst.
        let day = start + Duration::from_secs(86_400);
        let looked_at = (0..20)
            .filter(|_| gate.judge(Some(b"Bearer guess-guess"), day) == Verdict::Wrong)
            .count();
        assert_eq!(looked_at, BURST as usize);
        assert_eq!(gate.judge(Some(b"Bearer correct-horse"), day + PAUSE), Verdict::Open);
    }

    #[test]
    fn the_owner_is_not_slowed_down() {
        let now = Instant::now();
        let mut gate = gate(now);
        for _ in 0..1000 {
            assert_eq!(gate.judge(Some(b"Bearer correct-horse"), now), Verdict::Open);
        }
    }
}
