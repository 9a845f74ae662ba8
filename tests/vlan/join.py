"""Puts a plain interface of this machine into a VLAN of another, by the kernel's own tag code.

Usage: join.py TRUNK ACCESS ID

Not every kernel has interfaces of type vlan, but every one can push and pop tags in a traffic control program. Frames of
VLAN ID that arrive on TRUNK leave ACCESS without the tag, and what arrives on ACCESS leaves TRUNK with it; segments and
checksums may still be the device's to make, as with an interface of type vlan. What has another tag, or none, stays on TRUNK.
"""

import ctypes
import os
import socket
import struct
import subprocess
import sys
import tempfile

SYS_BPF = {"x86_64": 321, "aarch64": 280}[os.uname().machine]
PROG_LOAD, OBJ_PIN = 5, 6
SCHED_CLS = 3
REDIRECT, VLAN_PUSH, VLAN_POP = 23, 18, 19
# Offsets in struct __sk_buff.
VLAN_PRESENT, VLAN_TCI = 20, 24
OK = 0

libc = ctypes.CDLL(None, use_errno=True)


def instruction(code, dst=0, src=0, offset=0, value=0):
    return struct.pack("<BBhi", code, src << 4 | dst, offset, value)


def move(dst, value):
    return instruction(0xB7, dst, value=value)


def copy(dst, src):
    return instruction(0xBF, dst, src)


def call(helper):
    return instruction(0x85, value=helper)


def load(dst, src, offset):
    return instruction(0x61, dst, src, offset)


END = instruction(0x95)


def inward(vlan, to):
    """From the trunk: pops the tag of one VLAN."""
    return b"".join([
        copy(6, 1),
        move(0, OK),
        load(2, 6, VLAN_PRESENT),
        instruction(0x15, 2, offset=8, value=0),  # none: end
        load(2, 6, VLAN_TCI),
        instruction(0x57, 2, value=0xFFF),
        instruction(0x55, 2, offset=5, value=vlan),  # another: end
        copy(1, 6),
        call(VLAN_POP),
        move(1, to),
        move(2, 0),
        call(REDIRECT),
        END,
    ])


def outward(vlan, to):
    """To the trunk: pushes the tag."""
    return b"".join([
        copy(6, 1),
        move(2, socket.htons(0x8100)),
        move(3, vlan),
        call(VLAN_PUSH),
        move(1, to),
        move(2, 0),
        call(REDIRECT),
        END,
    ])


def bpf(command, attributes):
    buffer = ctypes.create_string_buffer(attributes, 128)
    result = libc.syscall(SYS_BPF, command, buffer, 128)
    if result < 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
    return result


def attach(program, device, path):
    code = ctypes.create_string_buffer(program, len(program))
    license = ctypes.create_string_buffer(b"MIT")
    log = ctypes.create_string_buffer(65536)
    attributes = struct.pack(
        "<IIQQIIQ", SCHED_CLS, len(program) // 8, ctypes.addressof(code), ctypes.addressof(license), 1, len(log),
        ctypes.addressof(log))
    try:
        descriptor = bpf(PROG_LOAD, attributes)
    except OSError:
        sys.stderr.write(log.value.decode())
        raise
    name = ctypes.create_string_buffer(path.encode())
    bpf(OBJ_PIN, struct.pack("<QI", ctypes.addressof(name), descriptor))
    run = lambda words: subprocess.run(["tc", *words.split()], check=True)
    run(f"qdisc add dev {device} clsact")
    run(f"filter add dev {device} ingress bpf direct-action object-pinned {path}")


def main():
    trunk, access, vlan = sys.argv[1], sys.argv[2], int(sys.argv[3])
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run(["mount", "-t", "bpf", "bpf", folder], check=True)
        try:
            attach(inward(vlan, socket.if_nametoindex(access)), trunk, f"{folder}/inward")
            attach(outward(vlan, socket.if_nametoindex(trunk)), access, f"{folder}/outward")
        finally:
            # What is attached stays.
            subprocess.run(["umount", folder], check=True)


main()
