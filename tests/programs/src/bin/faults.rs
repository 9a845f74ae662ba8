//! Does one thing wrong, named by its argument, to see what the console says.

use std::env;
use std::hint::black_box;

use trireme_test_programs as _;

fn main() {
    let what = env::args()
        .nth(1)
        .or_else(|| env::var("FAULT").ok())
        .expect("an argument: panic, null, stack, thread-stack, data, code, abort, memory or hang");
    println!("about to do {what}");
    match what.as_str() {
        "panic" => panic!("wanted by the test"),
        "null" => null(),
        "stack" => println!("{}", stack(1)),
        "thread-stack" => {
            let thread = std::thread::spawn(|| stack(1));
            println!("{:?}", thread.join().is_ok());
        }
        "data" => run_data(),
        "code" => write_code(),
        "abort" => std::process::abort(),
        "memory" => memory(),
        "hang" => hang(),
        other => println!("no fault called {other}"),
    }
    println!("survived {what}");
}

/// Keeps the processor for itself, interrupts masked.
fn hang() {
    // SAFETY: nothing is accessed; that nothing runs from now on is what the test is about.
    #[cfg(all(target_os = "hermit", target_arch = "x86_64"))]
    unsafe {
        std::arch::asm!("cli", "2: jmp 2b")
    }
    // SAFETY: as above.
    #[cfg(all(target_os = "hermit", target_arch = "aarch64"))]
    unsafe {
        std::arch::asm!("msr daifset, #15", "2: b 2b")
    }
}

#[inline(never)]
fn null() {
    let pointer = black_box(std::ptr::null_mut::<u64>());
    // SAFETY: none; the write to an unmapped address is what the test is about.
    unsafe { pointer.write_volatile(1) }
}

#[inline(never)]
#[expect(unconditional_recursion, reason = "the stack is to overflow")]
fn stack(depth: u64) -> u64 {
    let frame = black_box([depth; 64]);
    stack(depth + 1) + frame[7]
}

/// Keeps blocks, each touched, until there is no more memory (or, on a machine with plenty, 1 GiB is kept).
fn memory() {
    let mut kept = Vec::new();
    for turn in 0..1024 {
        kept.push(vec![turn as u8; 1 << 20]);
        black_box(&kept);
    }
}

fn run_data() {
    // `ret` on x86_64; on aarch64 the first word is `ret` too.
    let code: &'static mut [u32; 4] = Box::leak(Box::new(if cfg!(target_arch = "aarch64") {
        [0xd65f_03c0; 4]
    } else {
        [0xc3c3_c3c3; 4]
    }));
    // SAFETY: none; calling what is in data must fault, that is what the test is about.
    let function =
        unsafe { std::mem::transmute::<*const u32, extern "C" fn()>(black_box(code.as_ptr())) };
    function();
}

fn write_code() {
    let code = black_box(null as fn() as usize as *mut u8);
    // SAFETY: none; writing to code must fault, that is what the test is about.
    unsafe { code.write_volatile(0) }
}
