//! What kernel calls cost. Under QEMU's `-icount shift=0` a nanosecond is an instruction, so the table is exact and
//! repeats to the digit; without it, it is only a stopwatch.

use std::hint::black_box;
use std::sync::{Arc, Condvar, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use trireme_test_programs as _;

const ROUNDS: u32 = 1000;

fn main() {
    let clock = each(|| {
        black_box(Instant::now());
    });
    println!("clock_gettime: {clock:.0}");
    for size in [16usize, 100, 1500, 65536] {
        let cost = each(|| {
            black_box(Vec::<u8>::with_capacity(black_box(size)));
        });
        println!("malloc and free of {size}: {cost:.0}");
    }
    let mutex = Mutex::new(0u32);
    println!("uncontended mutex: {:.0}", each(|| *mutex.lock().expect("no panics") += 1));
    println!("yield, alone: {:.0}", each(thread::yield_now));
    println!("switch by futex, there and back: {:.0}", ping_pong());
    let spawn = each(|| {
        thread::spawn(|| ()).join().expect("it does nothing");
    });
    println!("spawn and join: {spawn:.0}");
    let (mut to, from) = (vec![0u8; 65536], vec![1u8; 65536]);
    for size in [8usize, 40, 100, 1460, 65536] {
        let cost = each(|| black_box(&mut to[..size]).copy_from_slice(black_box(&from[..size])));
        println!("memcpy of {size}: {cost:.0}");
    }
    println!("all costs measured");
    if std::env::args().any(|argument| argument == "idle") {
        thread::sleep(Duration::from_secs(20));
    }
}

/// Instructions for each call, the loop's own included (it is two or three).
fn each(mut work: impl FnMut()) -> f64 {
    for _ in 0..16 {
        work();
    }
    let start = Instant::now();
    for _ in 0..ROUNDS {
        work();
    }
    start.elapsed().as_nanos() as f64 / f64::from(ROUNDS)
}

fn ping_pong() -> f64 {
    let ball = Arc::new((Mutex::new(0u32), Condvar::new()));
    let other = ball.clone();
    let play = move |ball: &(Mutex<u32>, Condvar), mine: u32| {
        let (count, turn) = ball;
        let mut count = count.lock().expect("no panics");
        loop {
            while *count % 2 != mine {
                count = turn.wait(count).expect("no panics");
            }
            if *count >= 2 * ROUNDS {
                *count += 1;
                turn.notify_one();
                return;
            }
            *count += 1;
            turn.notify_one();
        }
    };
    let start = Instant::now();
    let thread = thread::spawn(move || play(&other, 1));
    play(&ball, 0);
    thread.join().expect("no panics");
    start.elapsed().as_nanos() as f64 / f64::from(ROUNDS)
}
