#!/usr/bin/env python3
# SPDX-License-Identifier: MIT OR Apache-2.0
"""Measure a guest's network services in guest instructions: bulk TCP, UDP echo, HTTP, boot. See README.md.

  measure.py linux ARCH --images DIR [--offload full|csum|none] ...   the Linux guest of linux-guest/
  measure.py custom --ready REGEX --ports tx=5002,rx=5001,udp=7,http=80 ... -- qemu-system-... ARGS
"""
import argparse, ctypes, json, os, re, resource, shlex, socket, statistics, subprocess, sys, time
from insncount import Run, api_of, per_function

HOST, GUEST, TAP = "10.77.0.1", "10.77.0.2", "ict0"
CLONE_NEWNET = 0x40000000
# virtio-net device properties that take segmentation away from the guest, both ways; UDP's came with QEMU 8.2.
SEGMENTATION = "host_tso4 host_tso6 host_ecn host_ufo guest_tso4 guest_tso6 guest_ecn guest_ufo"
SEGMENTATION_UDP = "host_uso guest_uso4 guest_uso6"


def offload_properties(qemu):
    """Device properties for args.offload; each step takes one more service away."""
    names = {"full": "", "csum": SEGMENTATION, "none": SEGMENTATION + " csum guest_csum"}[args.offload]
    if names and api_of(qemu) > 1:
        names += " " + SEGMENTATION_UDP
    return "".join(f",{n}=off" for n in names.split())


def new_namespace(host, bits):
    """Move this process (and so QEMU) into a fresh network namespace with a TAP that passes virtio-net headers."""
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.unshare(CLONE_NEWNET):
        sys.exit(f"cannot make a network namespace: {os.strerror(ctypes.get_errno())}; run as root")
    for c in ("ip link set lo up", f"ip tuntap add dev {TAP} mode tap vnet_hdr", f"ip addr add {host}/24 dev {TAP}",
              f"ip link set {TAP} up", f"ip neigh replace {args.guest} lladdr {args.mac} dev {TAP} nud permanent"):
        subprocess.run(c.split(), check=True)


def connect(port, timeout=20):
    return socket.create_connection((args.guest, port), timeout=timeout)


def until(action, timeout, what):
    """Retry an action until it succeeds."""
    end, error = time.monotonic() + timeout, None
    while time.monotonic() < end:
        try:
            return action()
        except OSError as e:
            error = e
            time.sleep(0.01)
    raise TimeoutError(f"{what}: {error}")


def bulk_from_guest(port, size):
    with connect(port) as s:
        s.settimeout(60)
        s.sendall(size.to_bytes(8, "big"))
        got, buf = 0, bytearray(1 << 20)
        while got < size and (n := s.recv_into(buf)):
            got += n
    assert got == size, f"{got} of {size} bytes arrived"


def bulk_to_guest(port, size):
    block = bytes(1 << 18)
    with connect(port) as s:
        s.settimeout(60)
        for at in range(0, size, len(block)):
            s.sendall(block[:size - at])
        s.shutdown(socket.SHUT_WR)
        assert s.recv(1) == b"", "the sink sent something"  # the guest closes once it has read all


def udp_echo(port, count, size):
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as s:
        s.connect((args.guest, port))
        s.settimeout(5)
        lost = 0
        for i in range(count):
            data = i.to_bytes(4, "big") + bytes(size - 4)
            s.send(data)
            try:
                while s.recv(65536) != data:
                    pass
            except socket.timeout:
                lost += 1
        assert lost * 100 <= count, f"{lost} of {count} datagrams unanswered"


def udp_window(port, count, size):
    """Echo with a window of datagrams in flight: the guest always has work, so a polling guest's waiting is not counted."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as s:
        s.connect((args.guest, port))
        s.settimeout(1)
        in_flight = received = lost = 0
        data = bytes(size)
        while received < count:
            while in_flight < args.window:
                s.send(data)
                in_flight += 1
            try:
                s.recv(65536)
                received, in_flight = received + 1, in_flight - 1
            except socket.timeout:
                lost, in_flight = lost + in_flight, 0
        assert lost * 50 <= count, f"{lost} datagrams lost with {args.window} in flight; try a smaller --window"


def read_response(s, pending=b""):
    while b"\r\n\r\n" not in pending:
        if not (more := s.recv(65536)):
            raise ConnectionError(f"closed within the headers: {pending[:80]!r}")
        pending += more
    head, body = pending.split(b"\r\n\r\n", 1)
    if b" 200 " not in head.split(b"\r\n")[0]:
        raise ConnectionError(head[:80].decode(errors="replace"))
    length = next(int(l.split(b":")[1]) for l in head.split(b"\r\n") if l.lower().startswith(b"content-length"))
    while len(body) < length:
        if not (more := s.recv(65536)):
            raise ConnectionError("closed within the body")
        body += more
    return body[length:]


def request(path, how):
    return f"GET {path} HTTP/1.1\r\nHost: {args.guest}\r\nConnection: {how}\r\n\r\n".encode()


def http_keep_alive(port, path, count):
    with connect(port) as s:
        s.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        rest = b""
        for _ in range(count):
            s.sendall(request(path, "keep-alive"))
            rest = read_response(s, rest)


def http_beside_idle(port, path, count, held=[]):
    """Keep-alive while other connections are open and silent; they are opened in the unmeasured run."""
    if not held:
        resource.setrlimit(resource.RLIMIT_NOFILE, (args.idle_connections + 1000,) * 2)
        held.extend(connect(port) for _ in range(args.idle_connections))
    http_keep_alive(port, path, count)


def http_pipelined(port, path, count, depth=16):
    """Keep-alive with `depth` requests in flight, for the same reason."""
    with connect(port) as s:
        s.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        rest, one = b"", request(path, "keep-alive")
        s.sendall(one * depth)
        for done in range(count):
            rest = read_response(s, rest)
            if done + depth < count:
                s.sendall(one)


def http_close(port, path, count):
    for _ in range(count):
        with connect(port) as s:
            s.sendall(request(path, "close"))
            read_response(s)
            while s.recv(65536):
                pass


def repeated(run, name, work, units, per):
    """Median, least and most instructions per unit over args.repeat runs, after one unmeasured run."""
    work()
    rows = [run.around(work)[0] for _ in range(args.repeat)]
    per_unit = sorted(d["insns"] / units for d in rows)
    wall = statistics.median(d["wall_ns"] for d in rows) / 1e9
    result = {"metric": name, "per": per, "median": statistics.median(per_unit), "min": per_unit[0], "max": per_unit[-1],
              "units_per_s": units / wall}
    if args.elf:
        before = run.profile()
        work()
        functions = per_function(args.elf, args.elf_offset, before, run.profile())
        result["top"] = [[f, n / units] for f, n in functions[:args.top]]
    for f in ("halts", "string_bytes", "loads", "stores", "load_bytes", "store_bytes"):
        if any(d[f] for d in rows):
            result[f] = statistics.median(d[f] / units for d in rows)
    report(result)


def report(result):
    result = {"peer": args.label, **result}
    results.append(result)
    print(json.dumps({k: round(v, 4) if isinstance(v, float) else v for k, v in result.items()}), flush=True)


def linux_qemu(ram):
    d = args.images
    machine = {"x86_64": ["-M", args.machine or "q35"], "aarch64": ["-M", args.machine or "virt"]}[args.arch]
    cpu = args.cpu or {"x86_64": "qemu64", "aarch64": "cortex-a57"}[args.arch]
    console = {"x86_64": "ttyS0", "aarch64": "ttyAMA0"}[args.arch]
    device = "virtio-net-device" if "microvm" in (args.machine or "") else "virtio-net-pci"
    rom = ",romfile=" if device.endswith("pci") else ""
    return [args.program, "-accel", "tcg", *machine, "-cpu", cpu, "-m", str(ram), "-nodefaults", "-nographic",
            "-serial", "stdio", "-no-reboot", "-kernel", f"{d}/{args.kernel}", "-initrd", f"{d}/{args.initrd}",
            "-append", f"console={console} quiet panic=-1 {args.append}",
            "-netdev", f"tap,id=n,ifname={TAP},script=no,downscript=no,vhost=off",
            "-device", f"{device},netdev=n{rom}{offload_properties(args.program)}", *shlex.split(args.extra)]


def qemu_for(ram):
    if args.peer == "linux":
        return linux_qemu(ram)
    return [str(ram) if a == "@RAM@" else a.replace("@TAP@", TAP).replace("@OFFLOAD@", offload_properties(args.qemu[0])) for a in args.qemu]


def start(ram):
    def on_line(run, line):
        if args.ready and not hasattr(run, "ready") and re.search(args.ready, line):
            run.ready = run.mark("ready")
    return Run(qemu_for(ram), mode=args.mode, mem=args.mem, prof=bool(args.elf), stdin=subprocess.DEVNULL, on_line=on_line)


def first_answer(run, timeout):
    """Wait for the first HTTP answer (or the first UDP echo); returns the mark taken right after it."""
    if "http" in ports:
        def get():
            if run.process.poll() is not None:
                raise RuntimeError(f"QEMU ended: {run.lines[-5:]}")
            with connect(ports["http"], 0.1) as s:  # a SYN before the guest is up is lost: try anew, do not wait for TCP
                s.settimeout(5)
                s.sendall(request(args.path, "close"))
                read_response(s)
        until(get, timeout, "no HTTP answer")
    else:
        run.wait_line(args.ready, timeout)
        if "udp" in ports:
            until(lambda: udp_echo(ports["udp"], 1, 64), timeout, "no echo")
    return run.mark("first answer")


def least_ram():
    """The least RAM (MiB) with which the guest still answers and echoes, by bisection."""
    def serves(ram):
        run = start(ram)
        try:
            first_answer(run, args.boot_timeout)
            for name, work in (("rx", lambda: bulk_to_guest(ports["rx"], 1 << 20)), ("tx", lambda: bulk_from_guest(ports["tx"], 1 << 20))):
                if name in ports:
                    work()
            return True
        except (OSError, RuntimeError, AssertionError) as e:
            print(f"least RAM: {ram} MiB: {type(e).__name__}: {e}", file=sys.stderr, flush=True)
            return False
        finally:
            run.stop()
    low, high = args.least_ram_from, args.ram
    while high - low > max(1, high // 32):
        middle = (low + high) // 2
        if serves(middle):
            high = middle
        else:
            low = middle
        print(f"least RAM: serves with {high} MiB, not with {low}", file=sys.stderr, flush=True)
    report({"metric": "least RAM", "per": "MiB", "median": high})


def measure():
    run = start(args.ram)
    try:
        m = first_answer(run, args.boot_timeout)
        report({"metric": "boot to first answer", "per": "boot", "median": m["insns"], "wall_s": (m["wall_ns"] - run.start_ns) / 1e9})
        if args.ready:
            run.wait_line(args.ready, args.boot_timeout)
            time.sleep(0.1)
            report({"metric": "boot to the ready line", "per": "boot", "median": run.ready["insns"]})
        # Idle, not starting up: duplicate address detection (1 s) and the second router solicitation (4 s) are over.
        time.sleep(5)
        d, _ = run.around(lambda: time.sleep(10))
        report({"metric": "idle", "per": "second", "median": d["insns"] / (d["wall_ns"] / 1e9)})
        todo = [m for m in args.metrics.split(",")]
        size, count = args.bytes, args.count
        works = [("tx", "TCP guest to host", lambda: bulk_from_guest(ports["tx"], size), size, "byte"),
                 ("rx", "TCP host to guest", lambda: bulk_to_guest(ports["rx"], size), size, "byte"),
                 ("udp", "UDP echo 1472", lambda: udp_echo(ports["udp"], count, 1472), count, "round trip"),
                 ("udpwin", f"UDP echo 1472, {args.window} in flight", lambda: udp_window(ports["udp"], count, 1472), count, "datagram"),
                 ("http", "HTTP keep-alive", lambda: http_keep_alive(ports["http"], args.path, count), count, "request"),
                 ("httppipe", "HTTP keep-alive, 16 in flight", lambda: http_pipelined(ports["http"], args.path, count), count, "request"),
                 ("httpidle", "HTTP keep-alive beside idle connections", lambda: http_beside_idle(ports["http"], args.path, count), count, "request"),
                 ("httpclose", "HTTP, a connection each", lambda: http_close(ports["http"], args.path, count // 4), count // 4, "request")]
        for key, name, work, units, per in works:
            if key in todo:
                try:
                    repeated(run, name, work, units, per)
                except (OSError, RuntimeError, AssertionError, ValueError) as e:
                    report({"metric": name, "error": f"{type(e).__name__}: {e}"})
        if args.prof_lines:
            print("\n".join(run.lines[-args.prof_lines:]), file=sys.stderr)
    finally:
        run.stop()


p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
p.add_argument("peer", choices=("linux", "custom"))
p.add_argument("arch", nargs="?", choices=("x86_64", "aarch64"), default="x86_64")
p.add_argument("--program", help="linux: the QEMU to use")
p.add_argument("--images", help="linux: folder with the kernel and the initrd (the output of linux-guest/build.sh)")
p.add_argument("--kernel", default="vmlinuz")
p.add_argument("--initrd", default="initrd.gz")
p.add_argument("--append", default="", help="linux: more boot arguments")
p.add_argument("--machine")
p.add_argument("--cpu")
p.add_argument("--extra", default="", help="linux: more QEMU arguments, e.g. '-icount shift=0'")
p.add_argument("--offload", choices=("full", "csum", "none"), default="full", help="full: checksums and TSO; csum: checksums only; none")
p.add_argument("--ready", help="console line after which all services answer")
p.add_argument("--ports", default="tx=5002,rx=5001,udp=7,http=80")
p.add_argument("--guest", default=GUEST)
p.add_argument("--host", default=HOST)
p.add_argument("--mac", default="52:54:00:12:34:56", help="the guest's hardware address (QEMU's first default)")
p.add_argument("--path", default="/1k")
p.add_argument("--metrics", default="tx,rx,udp,udpwin,http,httppipe,httpclose")
p.add_argument("--bytes", type=int, default=64 << 20)
p.add_argument("--count", type=int, default=2000)
p.add_argument("--window", type=int, default=32, help="datagrams in flight for udpwin")
p.add_argument("--idle-connections", type=int, default=10_000, help="connections open and silent for httpidle")
p.add_argument("--repeat", type=int, default=5)
p.add_argument("--ram", type=int, default=256)
p.add_argument("--least-ram", action="store_true", help="find the least RAM instead")
p.add_argument("--least-ram-from", type=int, default=1)
p.add_argument("--boot-timeout", type=float, default=120)
p.add_argument("--mode", choices=("insn", "tb"), default="insn")
p.add_argument("--mem", choices=("off", "ops", "bytes"), default="off")
p.add_argument("--elf", help="custom: the image with symbols; adds to each result which functions the instructions went to")
p.add_argument("--elf-offset", type=lambda x: int(x, 0), default=0, help="run address less link address")
p.add_argument("--top", type=int, default=45, help="functions to name with --elf")
p.add_argument("--label", default="")
p.add_argument("--console", dest="prof_lines", type=int, default=0, help="print the last N console lines at the end")
p.add_argument("--out", help="append the results to this file, a JSON object a line")
# Everything after "--" is the QEMU command of a custom peer, with @TAP@, @RAM@ and @OFFLOAD@ where they belong.
at = sys.argv.index("--") if "--" in sys.argv else len(sys.argv)
args = p.parse_args(sys.argv[1:at])
args.qemu = sys.argv[at + 1:]
results = []
ports = {k: int(v) for k, v in (x.split("=") for x in args.ports.split(","))}
if args.peer == "linux":
    args.ready = args.ready or "PEER-READY"
    args.label = args.label or f"linux {args.arch} {args.offload}"
    if not args.images:
        p.error("--images is needed")
elif not args.qemu:
    p.error("the QEMU command is missing: custom ... -- qemu-system-... ARGS")
new_namespace(args.host, 24)
try:
    least_ram() if args.least_ram else measure()
finally:
    if args.out:
        with open(args.out, "a") as f:
            f.writelines(json.dumps(r) + "\n" for r in results)
