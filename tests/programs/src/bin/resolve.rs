//! Looks up the names given as arguments and prints their addresses, sorted.

use std::env;
use std::net::{IpAddr, ToSocketAddrs};
use std::thread;
use std::time::Duration;

use trireme_test_programs as _;

fn main() {
    for name in env::args().skip(1) {
        // DHCP may still be at work: some patience, but not for ever.
        let mut answer = lookup(&name);
        for _ in 0..10 {
            if answer.is_ok() || name.starts_with("nowhere") {
                break;
            }
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
