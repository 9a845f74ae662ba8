//! Exercises threads, locks, time and thread-locals; every answer is checked here, where what is right is known.

use std::cell::Cell;
use std::collections::HashMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::sync::{Arc, Barrier, Condvar, Mutex, OnceLock, RwLock};
use std::thread;
use std::time::{Duration, Instant, SystemTime};

use trireme_test_programs as _;

thread_local! {
    static NUMBER: Cell<u64> = const { Cell::new(7) };
    static DROPPED: Guard = const { Guard };
}

static DROPS: AtomicUsize = AtomicUsize::new(0);

/// Counts that thread-local destructors run.
struct Guard;

impl Drop for Guard {
    fn drop(&mut self) {
        DROPS.fetch_add(1, Ordering::Relaxed);
    }
}

fn main() {
    check("locals", locals);
    check("mutex", mutex);
    check("condvar", condvar);
    check("read-write lock", read_write_lock);
    check("channels", channels);
    check("barrier and once", barrier_and_once);
    check("park", park);
    check("sleep", sleep);
    check("preemption", preemption);
    check("floating point", floating_point);
    check("many threads", many_threads);
    check("memory", memory);
    check("clock", clock);
    println!("all threads checks passed");
}

fn check(name: &str, work: fn()) {
    let start = Instant::now();
    work();
    println!("{name}: right ({} ms)", start.elapsed().as_millis());
}

fn locals() {
    NUMBER.set(1);
    let threads: Vec<_> = (0..8)
        .map(|i| {
            thread::spawn(move || {
                DROPPED.with(|_| ());
                assert_eq!(NUMBER.get(), 7);
                NUMBER.set(i);
                thread::sleep(Duration::from_millis(5));
                assert_eq!(NUMBER.get(), i);
            })
        })
        .collect();
    threads.into_iter().for_each(|t| t.join().unwrap());
    assert_eq!(NUMBER.get(), 1);
    assert_eq!(DROPS.load(Ordering::Relaxed), 8);
}

fn mutex() {
    let total = Arc::new(Mutex::new(0_u64));
    let threads: Vec<_> = (0..4)
        .map(|_| {
            let total = total.clone();
            thread::spawn(move || (0..10_000).for_each(|_| *total.lock().unwrap() += 1))
        })
        .collect();
    threads.into_iter().for_each(|t| t.join().unwrap());
    assert_eq!(*total.lock().unwrap(), 40_000);
}

fn condvar() {
    let pair = Arc::new((Mutex::new(false), Condvar::new()));
    let other = pair.clone();
    let waiter = thread::spawn(move || {
        let mut set = other.0.lock().unwrap();
        while !*set {
            set = other.1.wait(set).unwrap();
        }
    });
    thread::sleep(Duration::from_millis(10));
    *pair.0.lock().unwrap() = true;
    pair.1.notify_one();
    waiter.join().unwrap();
    let start = Instant::now();
    let guard = pair.0.lock().unwrap();
    let (_guard, timeout) = pair.1.wait_timeout(guard, Duration::from_millis(50)).unwrap();
    assert!(timeout.timed_out());
    assert!(start.elapsed() >= Duration::from_millis(50));
}

fn read_write_lock() {
    let lock = Arc::new(RwLock::new(vec![0_u32; 64]));
    let writer = {
        let lock = lock.clone();
        thread::spawn(move || (1..200).for_each(|i| lock.write().unwrap().fill(i)))
    };
    for _ in 0..200 {
        let values = lock.read().unwrap();
        assert!(values.iter().all(|v| *v == values[0]), "a torn write was seen");
    }
    writer.join().unwrap();
}

fn channels() {
    let (sender, receiver) = mpsc::sync_channel(3);
    let sending = thread::spawn(move || (0..1000_u32).for_each(|i| sender.send(i).unwrap()));
    assert!(receiver.iter().eq(0..1000));
    sending.join().unwrap();
    let (_sender, receiver) = mpsc::channel::<()>();
    assert_eq!(receiver.recv_timeout(Duration::from_millis(20)), Err(RecvTimeoutError::Timeout));
}

fn barrier_and_once() {
    static ONCE: OnceLock<usize> = OnceLock::new();
    static RUNS: AtomicUsize = AtomicUsize::new(0);
    let barrier = Arc::new(Barrier::new(4));
    let threads: Vec<_> = (0..4)
        .map(|_| {
            let barrier = barrier.clone();
            thread::spawn(move || {
                barrier.wait();
                *ONCE.get_or_init(|| RUNS.fetch_add(1, Ordering::SeqCst) + 1)
            })
        })
        .collect();
    threads.into_iter().for_each(|t| assert_eq!(t.join().unwrap(), 1));
}

fn park() {
    let sleeper = thread::spawn(thread::park);
    thread::sleep(Duration::from_millis(10));
    sleeper.thread().unpark();
    sleeper.join().unwrap();
    let start = Instant::now();
    thread::park_timeout(Duration::from_millis(30));
    assert!(start.elapsed() >= Duration::from_millis(30));
}

fn sleep() {
    for wanted in [1, 10, 100].map(Duration::from_millis) {
        let start = Instant::now();
        thread::sleep(wanted);
        let slept = start.elapsed();
        assert!(slept >= wanted, "{slept:?} instead of {wanted:?}");
        assert!(slept < wanted + Duration::from_millis(500), "{slept:?} instead of {wanted:?}");
    }
}

/// Two threads that never yield must both get on.
fn preemption() {
    let counters: Arc<[AtomicUsize; 2]> = Arc::new([AtomicUsize::new(0), AtomicUsize::new(0)]);
    let end = Instant::now() + Duration::from_millis(300);
    let threads: Vec<_> = (0..2)
        .map(|i| {
            let counters = counters.clone();
            thread::spawn(move || {
                while Instant::now() < end {
                    counters[i].fetch_add(1, Ordering::Relaxed);
                }
            })
        })
        .collect();
    threads.into_iter().for_each(|t| t.join().unwrap());
    let (a, b) = (counters[0].load(Ordering::Relaxed), counters[1].load(Ordering::Relaxed));
    assert!(a > 0 && b > 0 && a < b * 20 && b < a * 20, "an unfair share: {a} and {b}");
}

/// Vector and floating-point registers belong to a thread.
fn floating_point() {
    let threads: Vec<_> = (1..=4)
        .map(|i| {
            thread::spawn(move || {
                let step = f64::from(i) * 0.125;
                let mut lanes = [0.0_f64; 8];
                for _ in 0..200_000 {
                    lanes.iter_mut().for_each(|lane| *lane += step);
                    std::hint::black_box(&mut lanes);
                }
                assert!(lanes.iter().all(|lane| *lane == step * 200_000.0), "{lanes:?}");
            })
        })
        .collect();
    threads.into_iter().for_each(|t| t.join().unwrap());
    assert_eq!(2.0_f64.sqrt().powi(2).round(), 2.0);
}

/// Threads come and go without leaving their stacks behind.
fn many_threads() {
    let total: u64 = (0..2000_u64).map(|i| thread::spawn(move || i).join().unwrap()).sum();
    assert_eq!(total, 1999 * 2000 / 2);
    let together: Vec<_> =
        (0..32).map(|_| thread::spawn(|| thread::sleep(Duration::from_millis(20)))).collect();
    together.into_iter().for_each(|t| t.join().unwrap());
}

fn memory() {
    let mut map = HashMap::new();
    for i in 0..20_000_u32 {
        map.insert(i, vec![i as u8; (i % 97) as usize]);
        if i % 3 == 0 {
            map.remove(&(i / 2));
        }
    }
    assert!(
        map.iter().all(|(k, v)| v.len() == (k % 97) as usize && v.iter().all(|b| *b == *k as u8))
    );
    let mut growing = Vec::new();
    (0..1_000_000_u32).for_each(|i| growing.push(i));
    assert!(growing.iter().copied().eq(0..1_000_000));
    let aligned: Vec<Box<Aligned>> = (0..50).map(|i| Box::new(Aligned([i; 64]))).collect();
    assert!(
        aligned.iter().all(|a| std::ptr::from_ref(&**a).addr() % 256 == 0 && a.0[63] == a.0[0])
    );
}

#[repr(align(256))]
struct Aligned([u8; 64]);

fn clock() {
    // The day this was written, and a century later.
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap().as_secs();
    assert!((1_796_000_000..4_952_000_000).contains(&now), "the clock says {now}");
    let mut last = Instant::now();
    for _ in 0..10_000 {
        let next = Instant::now();
        assert!(next >= last);
        last = next;
    }
}
