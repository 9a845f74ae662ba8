//! A running guest and its console.

use std::io::{Read, Write};
use std::process::{Child, ChildStdin, Command, ExitStatus, Stdio};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use trireme_tools::arch::Arch;
use trireme_tools::qemu::Machine;

/// The console's last part that a failing test shows, in bytes.
const SHOWN: usize = 6_000;
/// A guest that prints more than this has gone mad; the rest is not kept.
const CONSOLE_LIMIT: usize = 8 << 20;
/// What U-Boot asks for commands with.
const UBOOT_PROMPT: &str = "=> ";
/// The longest command, a download among them.
const UBOOT_PATIENCE: Duration = Duration::from_secs(60);

/// A QEMU process. Dropping it ends it, and shows its console if the test is failing.
pub struct Guest {
    child: Child,
    input: Option<ChildStdin>,
    console: Arc<Console>,
    arch: Arch,
    command: String,
    /// How long the console was when U-Boot was last told something.
    typed: usize,
}

#[derive(Default)]
struct Console {
    state: Mutex<ConsoleState>,
    changed: Condvar,
}

#[derive(Default)]
struct ConsoleState {
    text: Vec<u8>,
    ended: bool,
}

impl Console {
    /// A test that fails while it looks at the console leaves it as good as it was.
    fn lock(&self) -> MutexGuard<'_, ConsoleState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Guest {
    /// Boots the machine.
    pub fn boot(machine: &Machine) -> Guest {
        let mut command = machine.command().unwrap_or_else(|e| panic!("{e:#}"));
        let shown = trireme_tools::workspace::shown(&command);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().expect("QEMU starts");
        let console = Arc::new(Console::default());
        collect(child.stdout.take().expect("a pipe"), console.clone(), true);
        collect(child.stderr.take().expect("a pipe"), console.clone(), false);
        let input = child.stdin.take();
        Guest { child, input, console, arch: machine.arch, command: shown, typed: 0 }
    }

    /// Everything the guest (and QEMU) printed so far.
    pub fn console(&self) -> String {
        let state = self.console.lock();
        String::from_utf8_lossy(&state.text).into_owned()
    }

    /// Waits until the console shows `text`. Panics after `limit`, or when the guest ends without it.
    pub fn wait_for(&self, text: &str, limit: Duration) {
        self.wait_until(limit, text, |console| find(console, text.as_bytes()));
    }

    /// The same for text behind the console's first `seen` bytes.
    pub fn wait_for_behind(&self, seen: usize, text: &str, limit: Duration) {
        self.wait_until(limit, text, |console| {
            console.get(seen..).is_some_and(|new| find(new, text.as_bytes()))
        });
    }

    /// Waits until the console, called `what`, satisfies a condition.
    fn wait_until(&self, limit: Duration, what: &str, satisfied: impl Fn(&[u8]) -> bool) {
        let deadline = Instant::now() + limit;
        let mut state = self.console.lock();
        loop {
            if satisfied(&state.text) {
                return;
            }
            assert!(!state.ended, "the guest ended without {what:?}");
            let left = deadline.saturating_duration_since(Instant::now());
            assert!(!left.is_zero(), "no {what:?} on the console within {limit:?}");
            let waited = self.console.changed.wait_timeout(state, left);
            state = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    /// Types a line on the console.
    pub fn type_line(&mut self, line: &str) {
        self.type_bytes(format!("{line}\n").as_bytes());
    }

    /// Types these bytes on the console.
    pub fn type_bytes(&mut self, bytes: &[u8]) {
        let input = self.input.as_mut().expect("open until the guest is dropped");
        input.write_all(bytes).expect("QEMU reads its console");
    }

    /// Stops U-Boot before it boots by itself.
    pub fn stop_uboot(&mut self, limit: Duration) {
        self.wait_for("Hit any key to stop autoboot", limit);
        self.type_line("");
    }

    /// Lets U-Boot boot what it would, without its countdown; `seen` is how long the console was before.
    pub fn hurry_uboot(&mut self, seen: usize, limit: Duration) {
        self.wait_for_behind(seen, "Hit any key to stop autoboot", limit);
        self.type_line("");
        self.wait_for_behind(seen, UBOOT_PROMPT, limit);
        self.typed = self.console.lock().text.len();
        self.type_line("boot");
    }

    /// The way an update begins: slot b is on trial from now on, for two boots.
    pub fn begin_trial(&mut self, limit: Duration) {
        self.stop_uboot(limit);
        self.at_uboot("setenv slot b; setenv upgrade_available 1; setenv bootcount 0");
        self.at_uboot("setenv bootlimit 2; setenv bootdelay 0; saveenv");
        self.at_uboot("reset");
    }

    /// Lets a program talk to the guest's serial line, as if the line were its standard input and output, until it ends.
    pub fn converse(&mut self, command: &mut Command, limit: Duration) -> ExitStatus {
        let deadline = Instant::now() + limit;
        let mut seen = self.console.lock().text.len();
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
        let mut child = command.spawn().unwrap_or_else(|e| panic!("{command:?}: {e}"));
        let mut says = child.stdout.take().expect("a pipe");
        let mut hears = child.stdin.take().expect("a pipe");
        let input = self.input.as_mut().expect("open until the guest is dropped");
        thread::scope(|scope| {
            scope.spawn(move || {
                let mut buffer = [0; 4096];
                while let Ok(length @ 1..) = says.read(&mut buffer) {
                    input.write_all(&buffer[..length]).expect("QEMU reads its console");
                }
            });
            loop {
                let new = {
                    let state = self.console.lock();
                    let waited =
                        self.console.changed.wait_timeout(state, Duration::from_millis(50));
                    let state = waited.unwrap_or_else(PoisonError::into_inner).0;
                    let new = state.text[seen..].to_vec();
                    seen += new.len();
                    new
                };
                // It may have ended, which is looked at next.
                let _ = hears.write_all(&new);
                if let Some(status) = child.try_wait().expect("a child can be waited for") {
                    return status;
                }
                if Instant::now() > deadline {
                    let _ = child.kill();
                }
            }
        })
    }

    /// Types a command once U-Boot asks for one.
    pub fn at_uboot(&mut self, command: &str) {
        // U-Boot echoes, so a prompt that was answered already has nothing behind it.
        let typed = self.typed;
        self.wait_until(UBOOT_PATIENCE, UBOOT_PROMPT, |text| {
            text.len() > typed && text.ends_with(UBOOT_PROMPT.as_bytes())
        });
        self.typed = self.console.lock().text.len();
        self.type_line(command);
    }

    /// Waits for the guest to end by itself; returns the status its program (or kernel) ended with.
    pub fn exit_status(&mut self, limit: Duration) -> i32 {
        let deadline = Instant::now() + limit;
        loop {
            if let Some(status) = self.child.try_wait().expect("a child can be waited for") {
                let code = status.code().expect("QEMU was not killed");
                return self.arch.guest_status(code);
            }
            assert!(Instant::now() < deadline, "the guest did not end within {limit:?}");
            thread::sleep(Duration::from_millis(10));
        }
    }

    /// Whether it still runs.
    pub fn is_running(&mut self) -> bool {
        self.child.try_wait().expect("a child can be waited for").is_none()
    }

    /// The QEMU process, to look at its use of time.
    pub fn process_id(&self) -> u32 {
        self.child.id()
    }
}

impl Drop for Guest {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = self.child.kill();
        let _ = self.child.wait();
        if thread::panicking() {
            let console = self.console();
            let mut from = console.len().saturating_sub(SHOWN);
            while !console.is_char_boundary(from) {
                from += 1;
            }
            eprintln!(
                "--- {}\n--- its console ends with:\n{}\n---",
                self.command,
                &console[from..]
            );
        }
    }
}

/// Reads one of QEMU's pipes until it closes.
fn collect(mut pipe: impl Read + Send + 'static, console: Arc<Console>, is_console: bool) {
    thread::spawn(move || {
        let mut buffer = [0; 4096];
        loop {
            let length = pipe.read(&mut buffer).unwrap_or(0);
            let mut state = console.lock();
            let room = CONSOLE_LIMIT.saturating_sub(state.text.len());
            state.text.extend_from_slice(&buffer[..length.min(room)]);
            state.ended |= is_console && length == 0;
            console.changed.notify_all();
            if length == 0 {
                return;
            }
        }
    });
}

fn find(text: &[u8], wanted: &[u8]) -> bool {
    text.windows(wanted.len()).any(|window| window == wanted)
}
