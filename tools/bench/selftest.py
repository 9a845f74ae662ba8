#!/usr/bin/env python3
# SPDX-License-Identifier: MIT OR Apache-2.0
"""Check the counter against programs whose instruction counts are known by construction. Usage: selftest.py QEMU-AARCH64 QEMU-X86_64"""
import argparse, atexit, json, os, shutil, socket, struct, subprocess, sys, tempfile, time
from insncount import Run

p = argparse.ArgumentParser(description=__doc__)
p.add_argument("aarch64")
p.add_argument("x86_64")
args = p.parse_args()
folder = tempfile.mkdtemp()
atexit.register(shutil.rmtree, folder)
failed = 0


def check(what, got, want):
    global failed
    ok = got == want
    failed += not ok
    print(f"{'ok' if ok else 'FAILED'}: {what}: {got}" + ("" if ok else f", expected {want}"))


def marks(run):
    with socket.socket(socket.AF_UNIX) as s:
        s.connect(run.ctl)
        s.sendall(b"list\n")
        return {m["name"]: m for m in map(json.loads, iter(s.makefile().readline, '{"end":true}\n'))}


def run_for(qemu, pcs=(), **options):
    run = Run(qemu, pcs=pcs, stdin=subprocess.DEVNULL, **options)
    end, now = time.monotonic() + 30, None
    while time.monotonic() < end:
        if run.process.poll() is not None:
            sys.exit(f"QEMU ended: {run.lines} {run.end}")
        time.sleep(1)
        before, now = now, run.mark()
        seen = marks(run)
        if before and before["insns"] == now["insns"] and len(pcs) <= len(seen.keys() & {"start", "end"}):
            break  # all halted
    time.sleep(0.5)
    later = run.mark()
    run.stop()
    return seen, now, later


# aarch64, bare: a million turns of a two-instruction loop, then wfi for ever. Nothing else runs on this machine.
code = struct.pack("<6I", 0xD2800000 | 0x4240 << 5,  # movz x0, #0x4240
                   0xF2A00000 | 0xF << 5,            # movk x0, #0xf, lsl 16   (x0 = 1,000,000)
                   0xF1000400,                       # subs x0, x0, #1
                   0x54FFFFE1,                       # b.ne the subs
                   0xD503207F,                       # wfi
                   0x17FFFFFF)                       # b the wfi
open(f"{folder}/arm.bin", "wb").write(code)
arm = [args.aarch64, "-accel", "tcg", "-M", "virt", "-cpu", "cortex-a57", "-m", "64", "-nodefaults", "-nographic",
       "-device", f"loader,file={folder}/arm.bin,addr=0x40200000,cpu-num=0"]
for name, extra in (("", []), (" -icount", ["-icount", "shift=0"])):
    for mode in ("insn", "tb"):
        _, now, later = run_for(arm + extra, mode=mode)
        check(f"aarch64{name} mode={mode}: instructions up to wfi", now["insns"], 2 + 2 * 1_000_000 + 1)
        check(f"aarch64{name} mode={mode}: instructions while halted", later["insns"] - now["insns"], 0)

# x86, a boot sector: counted from its first instruction to its hlt, so that the BIOS does not matter.
code = bytes.fromhex("31c0 8ec0 bf0080 b9e803 f3aa b96400 e2fe fa f4 ebfd")
#                     xor  mov  mov di mov cx,1000 rep stosb mov cx,100 loop cli hlt jmp
open(f"{folder}/boot.img", "wb").write((code.ljust(510, b"\0") + b"\x55\xaa").ljust(1 << 20, b"\0"))
x86 = [args.x86_64, "-accel", "tcg", "-M", "q35", "-m", "64", "-nodefaults", "-nographic",
       "-drive", f"if=ide,format=raw,file={folder}/boot.img,snapshot=on"]
for name, extra in (("", []), (" -icount", ["-icount", "shift=0"])):
    seen, _, _ = run_for(x86 + extra, pcs=("7c00:start", f"{0x7c00 + code.index(0xf4, 14):x}:end"), mem="bytes")
    if not {"start", "end"} <= seen.keys():
        check(f"x86{name}: marks reached", sorted(seen), ["end", "start"])
        continue
    d = {k: seen["end"][k] - seen["start"][k] for k in ("insns", "string_bytes", "stores", "store_bytes", "loads")}
    # xor, three movs, one mov, 100 loops, cli; the rep stosb is not an instruction here but 1000 bytes
    check(f"x86{name}: instructions", d["insns"], 106)
    check(f"x86{name}: bytes stored by string instructions", d["string_bytes"], 1000)
    check(f"x86{name}: stores, bytes, loads", (d["stores"], d["store_bytes"], d["loads"]), (1000, 1000, 0))
sys.exit(1 if failed else 0)
