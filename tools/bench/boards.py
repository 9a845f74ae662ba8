#!/usr/bin/env python3
# SPDX-License-Identifier: MIT OR Apache-2.0
"""Count what a board image executes from its kernel's entry to its first HTTP answer, started by U-Boot. See README.md.

  boards.py --entry HEXADDR [--entry ...] [--type COMMAND ...] -- qemu-system-... ARGS

Without --type U-Boot boots by itself; otherwise it is stopped and the commands are typed at its prompt. The guest is asked through a
port that QEMU's user networking forwards to it, once it says on its console that it listens. Prints a JSON object.
"""
import argparse, ctypes, json, os, socket, subprocess, sys, time
from insncount import Run

CLONE_NEWNET = 0x40000000
PROMPT = "=> "


class Board(Run):
    """A run whose console is kept as text: a prompt is no line."""
    text = ""

    def _read(self):
        while chunk := self.process.stdout.read1(4096):
            self.text += chunk.decode(errors="replace")

    def wait(self, what, seen=0):
        end = time.monotonic() + args.timeout
        while what not in self.text[seen:]:
            if time.monotonic() > end or self.process.poll() is not None:
                sys.exit(f"no {what!r} on the console, which ends with:\n{self.text[-2000:]}")
            time.sleep(0.01)

    def type(self, line):
        self.process.stdin.write(line.encode() + b"\n")
        self.process.stdin.flush()

    def entries(self):
        """Counts at the marked addresses."""
        with socket.socket(socket.AF_UNIX) as s:
            s.connect(self.ctl)
            s.sendall(b"list\n")
            for line in s.makefile():
                mark = json.loads(line)
                if "end" in mark:
                    return
                if mark["name"] == "entry":
                    yield mark["insns"]


def first_answer(run):
    """One request: the guest listens already."""
    with socket.create_connection(("127.0.0.1", args.port), timeout=20) as s:
        s.sendall(b"GET / HTTP/1.1\r\nHost: board\r\nConnection: close\r\n\r\n")
        answer = s.recv(4096)
    if not answer.startswith(b"HTTP/1.1 200 "):
        sys.exit(f"the answer was {answer[:80]!r}")
    return run.mark("answer")["insns"]


p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
p.add_argument("--entry", action="append", required=True, metavar="HEXADDR", help="where a loader may enter the kernel")
p.add_argument("--type", action="append", default=[], metavar="COMMAND", help="typed at U-Boot's prompt")
p.add_argument("--port", type=int, default=8080, help="on 127.0.0.1, forwarded to the guest's port 80")
p.add_argument("--ready", default="listening on", help="what the guest says when it can be asked")
p.add_argument("--timeout", type=float, default=120, help="seconds for each step")
at = sys.argv.index("--") if "--" in sys.argv else len(sys.argv)
args = p.parse_args(sys.argv[1:at])
if ctypes.CDLL(None, use_errno=True).unshare(CLONE_NEWNET):
    sys.exit(f"cannot make a network namespace: {os.strerror(ctypes.get_errno())}; run as root")
subprocess.run("ip link set lo up".split(), check=True)
run = Board(sys.argv[at + 1:], pcs=[f"{e}:entry" for e in args.entry], stdin=subprocess.PIPE)
try:
    if args.type:
        run.wait("Hit any key to stop autoboot")
        run.type("")
    typed = len(run.text)
    for command in args.type:
        run.wait(PROMPT, typed)
        typed = len(run.text)
        run.type(command)
    run.wait(args.ready)
    answer = first_answer(run)
    entry = max(run.entries(), default=None)
    if entry is None:
        sys.exit(f"nothing was executed at {' or '.join(args.entry)}")
    print(json.dumps({"loader": entry, "boot": answer - entry}))
finally:
    run.stop()
