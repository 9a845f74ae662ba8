//! Looks up the names given as arguments and prints their addresses, sorted.

use std::env;
use std::net::{IpAddr, ToSocketAddrs};
use std::thread;
use std::time::{Duration, Instant};

use trireme_test_programs as _;

/// DHCP may still be at work when the program starts.
const PATIENCE: Duration = Duration::from_secs(5);

fn main() {
    let start = Instant::now();
    for name in env::args().skip(1) {
        let mut answer = lookup(&name);
        while answer.is_err() && start.elapsed() < PATIENCE {
            thread::sleep(Duration::from_millis(300));
            answer = lookup(&name);
        }
        match answer {
            Ok(addresses) => {
                let words: Vec<String> = addresses.iter().map(IpAddr::to_string).collect();
                println!("{name}: {}", words.join(" "));
            }
            Err(error) => println!("{name}: error {error}"),
        }
    }
    println!("end of names");
}

fn lookup(name: &str) -> std::io::Result<Vec<IpAddr>> {
    let mut addresses: Vec<IpAddr> = (name, 0).to_socket_addrs()?.map(|a| a.ip()).collect();
    addresses.sort();
    addresses.dedup();
    Ok(addresses)
}
