//! A program with nothing but a status page, on a port of its own: the one line that adds it.

use trireme_test_programs as _;

fn main() -> std::io::Result<()> {
    trireme_status::serve("0.0.0.0:9100")?;
    println!("status on port 9100");
    loop {
        std::thread::park();
    }
}
