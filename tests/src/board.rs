//! Boards in QEMU: the files `run.sh image --board` makes, started by Debian's U-Boot.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use trireme_tools::board::instructions::{commands, instructions};
use trireme_tools::board::{Board, Key, Package, package};
use trireme_tools::qemu::{Machine, Network};

use crate::files::Scratch;
use crate::guest::Guest;
use crate::images::image;
use crate::network::isolate;
use crate::program;

/// U-Boot, its waits for devices that are not there, and the appliance, on a machine that does other things too.
pub const LIMIT: Duration = Duration::from_secs(60);
/// Where the guest's web server can be reached.
pub const URL: &str = "http://127.0.0.1:8080/";

/// A board's files and how to boot them.
pub struct OnBoard {
    /// The board.
    pub board: Board,
    /// The files.
    pub package: Package,
    /// What a person is told to type.
    pub instructions: String,
    /// Where the files are; removed at the end.
    pub scratch: Scratch,
}

impl OnBoard {
    /// Makes the files of an application, in a network namespace of the test's own.
    pub fn new(board: &str, app: &str, append: &str, key: Option<&Key>) -> OnBoard {
        isolate();
        let scratch = Scratch::new();
        let board = Board::find(board).unwrap_or_else(|e| panic!("{e:#}"));
        let package = make(&board, app, append, key, &scratch.file("files"));
        let instructions = instructions(&board, &package, append);
        OnBoard { board, package, instructions, scratch }
    }

    /// The board, with what is usually in it: a network, and the card.
    pub fn machine(&self) -> Machine {
        let machine = self.board.emulated(&self.package);
        let mut machine = machine.expect("a board that QEMU has");
        machine.network = Network::User(vec!["8080:80".parse().expect("two ports")]);
        machine
    }

    /// Types the commands of the part of the instructions that begins with `way`, once U-Boot waits for them.
    pub fn follow(&self, guest: &mut Guest, way: &str, server: &str) {
        let commands = commands(&self.instructions, way);
        assert!(!commands.is_empty(), "no part {way:?} in:\n{}", self.instructions);
        for command in commands {
            guest.at_uboot(&command.replace("SERVER", server));
        }
    }
}

/// Puts a file on the card in place of the one of that name.
pub fn put_on_card(card: &Path, file: &Path, name: &str) {
    let (place, name) = (format!("{}@@1M", card.display()), format!("::{name}"));
    let file = file.to_str().expect("a UTF-8 path");
    program::succeed("mcopy", &["-o", "-i", &place, file, &name], LIMIT);
}

/// A key pair as U-Boot's signing tools want it, `NAME.key` and `NAME.crt`, of 2048 bits.
pub fn make_key(folder: &Path, name: &str) -> Key {
    let file = |extension: &str| folder.join(format!("{name}.{extension}")).display().to_string();
    let (key, certificate) = (file("key"), file("crt"));
    program::succeed("openssl", &["genrsa", "-out", &key, "2048"], LIMIT);
    let request = ["req", "-batch", "-new", "-x509", "-key", &key, "-out", &certificate];
    program::succeed("openssl", &request, LIMIT);
    Key::open(Path::new(&key)).unwrap_or_else(|e| panic!("{e:#}"))
}

/// QEMU's second flash chip, where U-Boot keeps its environment: 64 MiB in a file.
pub struct EnvironmentFlash(PathBuf);

impl EnvironmentFlash {
    /// Makes it; nothing is in it.
    pub fn new(scratch: &Scratch) -> EnvironmentFlash {
        let file = scratch.file("environment.img");
        let flash = std::fs::File::create(&file);
        flash.and_then(|flash| flash.set_len(64 << 20)).expect("the build folder can be written");
        EnvironmentFlash(file)
    }

    /// Puts it into a machine.
    pub fn insert(&self, machine: &mut Machine) {
        let drive = format!("if=pflash,unit=1,format=raw,file={}", self.0.display());
        machine.extra.extend(["-drive".into(), drive.into()]);
    }

    /// The value of a variable now, as the flash has it.
    pub fn get(&self, name: &str) -> Option<String> {
        let bytes = std::fs::read(&self.0).expect("the file was made by `new`");
        let mut variables = bytes[4..0x40000].split(|byte| *byte == 0);
        let value = variables
            .by_ref()
            .take_while(|variable| !variable.is_empty())
            .find_map(|v| v.strip_prefix(name.as_bytes())?.strip_prefix(b"=").map(<[u8]>::to_vec));
        value.map(|value| String::from_utf8_lossy(&value).into_owned())
    }
}

/// Makes the files of one application in `folder`.
pub fn make(board: &Board, app: &str, append: &str, key: Option<&Key>, folder: &Path) -> Package {
    let image = image(app, board.architecture());
    package(board, app, &image, append, key, folder).unwrap_or_else(|e| panic!("{e:#}"))
}

/// Waits until the web server answers.
pub fn answers(guest: &mut Guest) {
    let start = Instant::now();
    loop {
        let answer = program::run("curl", &["-s", "-f", "-m", "2", URL], LIMIT);
        if answer.status.success() {
            let page = String::from_utf8_lossy(&answer.stdout);
            assert!(page.contains("Trireme"), "another page: {page}");
            return;
        }
        assert!(guest.is_running(), "the guest ended");
        assert!(start.elapsed() < LIMIT, "no answer within {LIMIT:?} at {URL}");
    }
}
