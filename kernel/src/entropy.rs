//! Random numbers: a ChaCha20 generator, seeded from hardware.

use core::sync::atomic::{AtomicBool, Ordering};

use rand_chacha::ChaCha20Rng;
use rand_chacha::rand_core::{RngCore, SeedableRng};

use crate::arch;
use crate::cell::Kernel;

/// Output bytes after which the generator is rekeyed with fresh hardware entropy.
const RESEED_BYTES: usize = 1 << 20;

struct Generator {
    rng: Option<ChaCha20Rng>,
    /// Entropy from devices, mixed into the next key.
    pool: [u8; 32],
    since_reseed: usize,
}

static GENERATOR: Kernel<Generator> =
    Kernel::new(Generator { rng: None, pool: [0; 32], since_reseed: 0 });
static SAID: AtomicBool = AtomicBool::new(false);

/// Adds entropy from a device (virtio-rng); rekeys the generator.
pub fn add(bytes: &[u8]) {
    GENERATOR.with(|generator| {
        for (index, byte) in bytes.iter().enumerate() {
            generator.pool[index % 32] ^= byte;
        }
        generator.reseed();
    });
}

/// Fills a buffer with random bytes fit for keys.
pub fn fill(buffer: &mut [u8]) {
    GENERATOR.with(|generator| {
        generator.since_reseed = generator.since_reseed.saturating_add(buffer.len());
        if generator.rng.is_none() || generator.since_reseed > RESEED_BYTES {
            generator.reseed();
        }
        if let Some(rng) = &mut generator.rng {
            rng.fill_bytes(buffer);
        }
    });
}

impl Generator {
    fn reseed(&mut self) {
        let mut seed = self.pool;
        // The old generator's output goes in too: a reseed never makes things worse.
        if let Some(rng) = &mut self.rng {
            let mut old = [0; 32];
            rng.fill_bytes(&mut old);
            mix(&mut seed, &old);
        }
        let mut hardware = [0; 32];
        if hardware_seed(&mut hardware) {
            mix(&mut seed, &hardware);
        } else {
            mix(&mut seed, &jitter_seed());
            if self.pool == [0; 32] && !SAID.swap(true, Ordering::Relaxed) {
                log::warn!(
                    "entropy: no hardware generator: random numbers come from timing jitter"
                );
            }
        }
        let mut rng = ChaCha20Rng::from_seed(seed);
        // What is kept in the pool must not reveal the key.
        rng.fill_bytes(&mut self.pool);
        self.rng = Some(rng);
        self.since_reseed = 0;
    }
}

fn mix(into: &mut [u8; 32], from: &[u8; 32]) {
    for (a, b) in into.iter_mut().zip(from) {
        *a ^= b;
    }
}

fn hardware_seed(seed: &mut [u8; 32]) -> bool {
    for word in seed.as_chunks_mut::<8>().0 {
        match arch::hardware_random() {
            Some(random) => *word = random.to_ne_bytes(),
            None => return false,
        }
    }
    true
}

/// Entropy from how long things take, for machines without a generator: the low bits of the clock
/// around memory accesses, stirred by a 64-bit mixing function. 64 samples a word; at least one bit in
/// 64 may be hoped for on real machines, none is certain in an emulator, which is why it is said aloud.
fn jitter_seed() -> [u8; 32] {
    let mut seed = [0; 32];
    let mut state = arch::wall_clock_ns().unwrap_or(0) ^ arch::monotonic_ns();
    for word in seed.as_chunks_mut::<8>().0 {
        for _ in 0..64 {
            let before = arch::monotonic_ns();
            core::hint::black_box(&mut state);
            let spent = arch::monotonic_ns() ^ before << 7;
            // The finaliser of MurmurHash3.
            state ^= spent;
            state = (state ^ state >> 33).wrapping_mul(0xff51_afd7_ed55_8ccd);
            state = (state ^ state >> 33).wrapping_mul(0xc4ce_b9fe_1a85_ec53);
            state ^= state >> 33;
        }
        *word = state.to_ne_bytes();
    }
    seed
}
