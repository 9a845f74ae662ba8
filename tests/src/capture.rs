//! What was on the wire: tcpdump records it, tcpdump reads it back.

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use crate::network::TAP;
use crate::program::succeed;

/// A running recording of the test's TAP.
pub struct Capture {
    tcpdump: Child,
    file: PathBuf,
}

impl Capture {
    /// Starts recording to `file`; returns once tcpdump listens.
    pub fn start(file: &Path) -> Capture {
        let mut command = Command::new("tcpdump");
        // As root all the way: the build folder need not be open to tcpdump's own user. Large buffer: nothing is lost.
        command.args(["-Z", "root", "-n", "-U", "-B", "65536", "-i", TAP, "-w"]).arg(file);
        let mut tcpdump = command
            .stderr(Stdio::piped())
            .spawn()
            .expect("tcpdump is one of the packages of set-up");
        let mut lines = BufReader::new(tcpdump.stderr.take().expect("a pipe")).lines();
        let listening =
            lines.by_ref().map_while(Result::ok).any(|line| line.contains("listening on"));
        assert!(listening, "tcpdump does not listen");
        // Read to its end, or tcpdump would die of the closed pipe.
        std::thread::spawn(move || lines.map_while(Result::ok).count());
        Capture { tcpdump, file: file.to_owned() }
    }

    /// Stops recording.
    pub fn stop(mut self) -> Frames {
        // The kernel hands a block of frames over when it is full, or a second old. Who goes on sending is not
        // waited for.
        let size = || std::fs::metadata(&self.file).map_or(0, |file| file.len());
        let (mut last, mut still) = (size(), 0);
        for _ in 0..30 {
            if still == 11 {
                break;
            }
            std::thread::sleep(Duration::from_millis(100));
            let now = size();
            still = if now == last { still + 1 } else { 0 };
            last = now;
        }
        succeed("kill", &["-INT", &self.tcpdump.id().to_string()], Duration::from_secs(5));
        self.tcpdump.wait().expect("tcpdump ends when told to");
        Frames(self.file.clone())
    }
}

impl Drop for Capture {
    fn drop(&mut self) {
        // It has ended unless a test failed meanwhile.
        let _ = self.tcpdump.kill();
        let _ = self.tcpdump.wait();
    }
}

/// A recording.
pub struct Frames(PathBuf);

impl Frames {
    /// The frames that match a tcpdump filter, a line or more each, with checksums judged.
    pub fn matching(&self, filter: &str) -> String {
        let file = self.0.to_str().expect("a UTF-8 path");
        succeed(
            "tcpdump",
            &["-Z", "root", "-n", "-vv", "-r", file, filter],
            Duration::from_secs(60),
        )
    }

    /// How many frames match.
    pub fn count(&self, filter: &str) -> usize {
        let file = self.0.to_str().expect("a UTF-8 path");
        let lines = succeed(
            "tcpdump",
            &["-Z", "root", "-n", "-t", "-q", "-r", file, filter],
            Duration::from_secs(60),
        );
        lines.lines().count()
    }

    /// How many of the frames that match have a checksum that tcpdump finds wrong: of IP, TCP, UDP or ICMP.
    pub fn wrong_checksums(&self, filter: &str) -> usize {
        let text = self.matching(filter);
        ["incorrect", "bad cksum", "wrong icmp cksum", "bad udp cksum"]
            .iter()
            .map(|w| text.matches(w).count())
            .sum()
    }
}
