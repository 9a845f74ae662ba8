//! Keyed hashing and random numbers, both SipHash.
//!
//! Tables that the wire can fill are keyed, or a stranger could make every flow collide. The
//! generator runs the same function over a counter: a pseudo-random function of a secret key, good
//! for ports, identifiers and sequence numbers, not for long-term secrets.

/// A 128-bit SipHash key.
#[derive(Clone, Copy)]
pub(crate) struct Key(u64, u64);

struct State(u64, u64, u64, u64);

impl State {
    #[inline(always)]
    fn round(&mut self) {
        self.0 = self.0.wrapping_add(self.1);
        self.1 = self.1.rotate_left(13) ^ self.0;
        self.0 = self.0.rotate_left(32);
        self.2 = self.2.wrapping_add(self.3);
        self.3 = self.3.rotate_left(16) ^ self.2;
        self.0 = self.0.wrapping_add(self.3);
        self.3 = self.3.rotate_left(21) ^ self.0;
        self.2 = self.2.wrapping_add(self.1);
        self.1 = self.1.rotate_left(17) ^ self.2;
        self.2 = self.2.rotate_left(32);
    }

    #[inline(always)]
    fn absorb(&mut self, word: u64) {
        self.3 ^= word;
        self.round();
        self.0 ^= word;
    }
}

impl Key {
    pub(crate) fn new(bytes: [u8; 16]) -> Key {
        let (first, second) = bytes.split_at(8);
        let word = |half: &[u8]| half.iter().rev().fold(0, |w, byte| w << 8 | u64::from(*byte));
        Key(word(first), word(second))
    }

    /// SipHash-1-3 of the words' bytes in little-endian order.
    #[inline]
    pub(crate) fn hash<const N: usize>(&self, words: [u64; N]) -> u64 {
        let mut state = State(
            self.0 ^ 0x736f_6d65_7073_6575,
            self.1 ^ 0x646f_7261_6e64_6f6d,
            self.0 ^ 0x6c79_6765_6e65_7261,
            self.1 ^ 0x7465_6462_7974_6573,
        );
        for word in words {
            state.absorb(word);
        }
        state.absorb(((N as u64 * 8) & 0xff) << 56);
        state.2 ^= 0xff;
        state.round();
        state.round();
        state.round();
        state.0 ^ state.1 ^ state.2 ^ state.3
    }
}

/// Pseudo-random numbers.
pub(crate) struct Random {
    key: Key,
    counter: u64,
}

impl Random {
    pub(crate) fn new(key: Key) -> Random {
        Random { key, counter: 0 }
    }

    pub(crate) fn next_u64(&mut self) -> u64 {
        self.counter += 1;
        self.key.hash([self.counter, 0x7472_6972_656d_6521])
    }

    pub(crate) fn next_u32(&mut self) -> u32 {
        (self.next_u64() >> 32) as u32
    }

    /// Uniform in `0..limit` up to a bias of `limit / 2^64`.
    pub(crate) fn below(&mut self, limit: u32) -> u32 {
        ((u128::from(self.next_u64()) * u128::from(limit)) >> 64) as u32
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use core::hash::Hasher;
    use siphasher::sip::SipHasher13;

    #[test]
    fn agrees_with_the_siphasher_crate() {
        let bytes: [u8; 16] = core::array::from_fn(|i| (i as u8).wrapping_mul(17) ^ 0x3c);
        let key = Key::new(bytes);
        let words = [0x0123_4567_89ab_cdefu64, 42, u64::MAX, 0, 7];
        let reference = |count: usize| {
            let mut hasher = SipHasher13::new_with_key(&bytes);
            words[..count].iter().for_each(|w| hasher.write(&w.to_le_bytes()));
            hasher.finish()
        };
        assert_eq!(key.hash([words[0], words[1]]), reference(2));
        assert_eq!(key.hash(words), reference(5));
    }

    #[test]
    fn below_stays_below_and_reaches_every_value() {
        let mut random = Random::new(Key::new([7; 16]));
        let mut seen = [false; 10];
        for _ in 0..1000 {
            seen[random.below(10) as usize] = true;
        }
        assert_eq!(seen, [true; 10]);
    }
}
