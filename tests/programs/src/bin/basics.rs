//! The least: println, time, thread-locals, threads, a hash map.

use trireme_test_programs as _;

use std::cell::Cell;
use std::collections::HashMap;
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant, SystemTime};

thread_local! {
    static COUNT: Cell<u32> = const { Cell::new(7) };
}

fn main() {
    println!("hello from {:?}", std::env::args().collect::<Vec<_>>());
    let began = Instant::now();
    let map: HashMap<&str, u32> = [("one", 1), ("two", 2)].into();
    assert_eq!(map["two"], 2);

    let (send, receive) = mpsc::channel();
    let workers: Vec<_> = (0..4)
        .map(|number| {
            let send = send.clone();
            thread::spawn(move || {
                COUNT.set(COUNT.get() + number);
                send.send(COUNT.get()).expect("the main thread listens");
            })
        })
        .collect();
    for worker in workers {
        worker.join().expect("no worker panics");
    }
    let mut got: Vec<u32> = receive.try_iter().collect();
    got.sort_unstable();
    assert_eq!(got, [7, 8, 9, 10]);
    assert_eq!(COUNT.get(), 7);

    thread::sleep(Duration::from_millis(50));
    let slept = began.elapsed();
    assert!((Duration::from_millis(50)..Duration::from_secs(5)).contains(&slept), "{slept:?}");
    let year =
        SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).expect("after 1970").as_secs()
            / 31_556_952
            + 1970;
    assert!(year >= 2026, "year {year}");
    println!("all well after {slept:?}, year {year}");
}
