#!/usr/bin/env python3
# SPDX-License-Identifier: MIT OR Apache-2.0
"""Count the guest instructions a QEMU run executes, in total, between marks or per interval. See README.md."""
import argparse, bisect, json, os, re, shutil, signal, socket, subprocess, sys, tempfile, threading, time

HERE = os.path.dirname(os.path.abspath(__file__))
FIELDS = ("insns", "string_bytes", "loads", "stores", "load_bytes", "store_bytes", "halts")


def api_of(qemu):
    """The plugin API to build for, by QEMU's version."""
    version = subprocess.run([qemu, "--version"], capture_output=True, text=True, check=True).stdout
    major, minor = map(int, re.search(r"version (\d+)\.(\d+)", version).groups())
    return 7 if (major, minor) >= (11, 1) else 4 if (major, minor) >= (9, 1) else 1


def build(api, folder):
    """Compile the plugin for one API version into a folder (once)."""
    so, source = os.path.join(folder, f"insncount-{api}.so"), os.path.join(HERE, "insncount.c")
    if not os.path.exists(so) or os.path.getmtime(so) < os.path.getmtime(source):
        subprocess.run(["gcc", "-std=gnu11", "-O2", "-Wall", "-Wextra", "-fPIC", "-shared", "-fvisibility=hidden",
                        f"-DPLUGIN_API={api}", source, "-o", so + ".new", "-lpthread"], check=True)
        os.replace(so + ".new", so)
    return so


def ask(ctl, request):
    with socket.socket(socket.AF_UNIX) as s:
        s.connect(ctl)
        s.sendall(request.encode() + b"\n")
        reply = s.makefile().readline()
    answer = json.loads(reply)
    if "error" in answer:
        raise RuntimeError(answer["error"])
    return answer


def read_profile(ctl):
    """Have QEMU write its profile beside the socket and read it."""
    folder = os.path.dirname(ctl)
    ask(ctl, f"prof {folder}/prof")
    with open(os.path.join(folder, "prof")) as f:
        rows = [line.split() for line in f]
    return {(int(a, 16), int(n)): int(hits) for a, n, hits in rows}


def minus(b, a):
    return {k: b[k] - a[k] for k in (*FIELDS, "wall_ns")}


class Run:
    """A QEMU process with the plugin in it. `lines` holds its console output so far; `mark` reads the counters."""

    def __init__(self, qemu, mode="insn", mem="off", pcs=(), prof=False, on_line=None, prefix=(), stdin=None):
        self.folder = tempfile.mkdtemp(prefix="insncount-")
        so = build(api_of(qemu[0]), self.folder)
        self.ctl = os.path.join(self.folder, "ctl")
        plugin = f"file={so},ctl={self.ctl},mode={mode},mem={mem}"
        plugin += "".join(f",pc={p}" for p in pcs) + (",prof=on" if prof else "")
        self.start_ns = time.monotonic_ns()
        self.process = subprocess.Popen([*prefix, *qemu, "-plugin", plugin],
                                        stdin=stdin, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        self.lines, self.end, self.on_line = [], None, on_line
        self.reader = threading.Thread(target=self._read, daemon=True)
        self.reader.start()
        while not os.path.exists(self.ctl):  # the plugin listens before the guest's first instruction
            if self.process.poll() is not None:
                self.reader.join(5)
                raise RuntimeError(f"QEMU ended at once: {self.lines}")
            time.sleep(0.01)

    def _read(self):
        for raw in self.process.stdout:
            line = raw.decode(errors="replace").rstrip("\r\n")
            if line.startswith('{"name":"exit"'):
                self.end = json.loads(line)
                continue
            self.lines.append(line)
            if self.on_line:
                self.on_line(self, line)

    def mark(self, name="mark"):
        return ask(self.ctl, f"mark {name}")

    def around(self, work):
        """Counters spent while work() runs, and its result."""
        a = self.mark("begin")
        result = work()
        return minus(self.mark("end"), a), result

    def profile(self):
        """{(block address, instructions per execution): executions} since the start (needs prof=True)."""
        return read_profile(self.ctl)

    def wait_line(self, regex, timeout):
        end = time.monotonic() + timeout
        while time.monotonic() < end:
            for line in self.lines:
                if re.search(regex, line):
                    return line
            if self.process.poll() is not None:
                break
            time.sleep(0.02)
        raise TimeoutError(f"no line matching {regex!r}; the last ones: {self.lines[-12:]}")

    def stop(self):
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
            try:
                self.process.wait(10)
            except subprocess.TimeoutExpired:
                self.process.kill()
        self.process.wait()
        self.reader.join(5)
        shutil.rmtree(self.folder, ignore_errors=True)
        return self.end


def show(name, d):
    extra = "".join(f"  {f} {d[f]:,}" for f in FIELDS[1:] if d[f])
    print(f"insncount: {name}: {d['insns']:,} instructions{extra}  ({d['wall_ns'] / 1e9:.2f} s)", flush=True)


def command_run(a):
    last = {"name": "start", "wall_ns": 0, **dict.fromkeys(FIELDS, 0)}
    seen, lock = set(), threading.Lock()

    def step(run, name):
        nonlocal last
        with lock:
            m = run.mark(name)
            last["wall_ns"] = last["wall_ns"] or run.start_ns
            show(f"{last['name']} -> {name}", minus(m, last))
            last = m

    def on_line(run, line):
        print(line, flush=True)
        for spec in a.mark:
            name, regex = spec.split("=", 1)
            if name not in seen and re.search(regex, line):
                seen.add(name)
                step(run, name)

    run = Run(a.qemu, a.mode, a.mem, a.pc, a.prof, on_line=on_line)
    if a.ctl:
        print(f"insncount: control socket {run.ctl}", flush=True)
    end = time.monotonic() + a.timeout
    try:
        while run.process.poll() is None and time.monotonic() < end and not (a.until and a.until in seen):
            time.sleep(a.interval or 0.1)
            if a.interval and run.process.poll() is None:
                step(run, f"{time.monotonic_ns() / 1e9 - run.start_ns / 1e9:.1f}s")
        if a.pc and run.process.poll() is None:
            with socket.socket(socket.AF_UNIX) as s:
                s.connect(run.ctl)
                s.sendall(b"list\n")
                for line in s.makefile():
                    m = json.loads(line)
                    if "end" in m:
                        break
                    print(f"insncount: at {m['name']}: {m['insns']:,}")
    except KeyboardInterrupt:
        pass
    final = run.stop()
    if final:
        show("in all", {**final, "wall_ns": final["wall_ns"] - run.start_ns})
    return 0 if run.end else 1


def command_around(a):
    before = ask(a.ctl, "mark before")
    rc = subprocess.run(a.command).returncode
    d = minus(ask(a.ctl, "mark after"), before)
    show("around the command", d)
    if a.per:
        print(f"insncount: {d['insns'] / a.per:.3f} instructions per unit")
    return rc


def per_function(elf, offset, before, after, nm="nm"):
    """[(function, instructions)] between two profiles, most first; `offset` is the run address less the link address."""
    out = subprocess.run([nm, "-C", "--defined-only", "-n", elf], capture_output=True, text=True, check=True).stdout
    lines = [l.split(maxsplit=2) for l in out.splitlines()]
    # ARM's mapping symbols ($a, $d) are in the midst of functions.
    symbols = [(int(a, 16), name) for a, kind, name in lines if kind in "tTwWVv" and name[0] != "$"]
    starts = [s[0] for s in symbols]
    totals = {}
    for (address, length), hits in after.items():
        if n := (hits - before.get((address, length), 0)) * length:
            at = bisect.bisect_right(starts, address - offset) - 1
            name = symbols[at][1] if at >= 0 else f"{address:#x}"
            totals[name] = totals.get(name, 0) + n
    return sorted(totals.items(), key=lambda x: -x[1])


def command_top(a):
    """Which functions of an ELF the instructions went to, while a command ran."""
    before = read_profile(a.ctl)
    rc = subprocess.run(a.command).returncode
    functions = per_function(a.elf, a.offset, before, read_profile(a.ctl), a.nm)
    total = sum(n for _, n in functions)
    for name, n in functions[:a.lines]:
        print(f"{100 * n / max(total, 1):6.2f} % {n:>16,}  {name[:100]}")
    print(f"        {total:>16,}  in all")
    return rc


def command_mark(a):
    print(json.dumps(ask(a.ctl, f"mark {a.name}")))
    return 0


def main():
    p = argparse.ArgumentParser(description=__doc__)
    sub = p.add_subparsers(required=True)
    r = sub.add_parser("run", help="run a QEMU command and count")
    r.add_argument("--mark", action="append", default=[], metavar="NAME=REGEX", help="mark at the first console line that matches")
    r.add_argument("--until", metavar="NAME", help="stop QEMU at this mark")
    r.add_argument("--interval", type=float, metavar="S", help="mark every S seconds of wall time")
    r.add_argument("--pc", action="append", default=[], metavar="HEXADDR:NAME", help="mark whenever this address executes")
    r.add_argument("--mode", choices=("insn", "tb"), default="insn")
    r.add_argument("--mem", choices=("off", "ops", "bytes"), default="off")
    r.add_argument("--prof", action="store_true", help="count each block too, for `top`")
    r.add_argument("--ctl", action="store_true", help="print the control socket's path")
    r.add_argument("--timeout", type=float, default=600)
    r.add_argument("qemu", nargs=argparse.REMAINDER, help="-- qemu-system-... and its arguments")
    r.set_defaults(do=command_run)
    m = sub.add_parser("mark", help="read the counters of a running QEMU")
    m.add_argument("ctl")
    m.add_argument("name", nargs="?", default="mark")
    m.set_defaults(do=command_mark)
    c = sub.add_parser("around", help="count while another command runs")
    c.add_argument("--per", type=float, metavar="N", help="also divide by N (bytes, packets, requests)")
    c.add_argument("ctl")
    c.add_argument("command", nargs=argparse.REMAINDER)
    c.set_defaults(do=command_around)
    t = sub.add_parser("top", help="functions that ran most while a command ran (needs run --prof)")
    t.add_argument("--elf", required=True, help="ELF with the guest's symbols")
    t.add_argument("--offset", type=lambda x: int(x, 0), default=0, help="run address less link address")
    t.add_argument("--nm", default="nm")
    t.add_argument("--lines", type=int, default=25)
    t.add_argument("ctl")
    t.add_argument("command", nargs=argparse.REMAINDER)
    t.set_defaults(do=command_top)
    a = p.parse_args()
    for rest in ("qemu", "command"):
        if getattr(a, rest, None) and getattr(a, rest)[0] == "--":
            getattr(a, rest).pop(0)
    sys.exit(a.do(a))


if __name__ == "__main__":
    main()
