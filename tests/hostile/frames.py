#!/usr/bin/env python3
"""Sends frames that no honest peer sends. Usage: frames.py INTERFACE KIND; prints how many were sent.

Every frame goes to the guest 10.77.0.2 (or fe80::5054:ff:fe12:3456) at QEMU's first hardware address. Random ones come
from a fixed seed.
"""
import random
import sys

from scapy.all import (ARP, BOOTP, DHCP, Ether, ICMP, ICMPv6EchoRequest, ICMPv6ND_NA, ICMPv6ND_NS, ICMPv6ND_RA, IP, IPv6,
                       IPv6ExtHdrDestOpt, IPv6ExtHdrFragment, IPv6ExtHdrHopByHop, IPv6ExtHdrRouting, Raw, TCP, UDP, conf,
                       fragment, get_if_hwaddr, raw)

conf.verb = 0
INTERFACE, KIND = sys.argv[1:3]
MAC, V4, V6 = "52:54:00:12:34:56", "10.77.0.2", "fe80::5054:ff:fe12:3456"
OWN4, OWN6 = "10.77.0.1", "fe80::1"
random.seed(7)
ether = Ether(dst=MAC, src=get_if_hwaddr(INTERFACE))
ip = ether / IP(src=OWN4, dst=V4)
ip6 = ether / IPv6(src=OWN6, dst=V6)
tcp = ip / TCP(sport=4000, dport=80, flags="S")
udp = ip / UDP(sport=4000, dport=7) / Raw(b"x" * 32)


def noise(n):
    return bytes(random.randrange(256) for _ in range(n))


def cut_short():
    """Good frames, cut after every number of bytes."""
    for whole in (tcp, udp, ip / ICMP() / Raw(b"x" * 8), ip6 / TCP(dport=80), ip6 / ICMPv6EchoRequest(), ether / ARP(pdst=V4)):
        data = raw(whole)
        yield from (data[:n] for n in range(14, len(data)))


def lying_lengths():
    for length in (0, 1, 19, 20, 21, 39, 40, 41, 1500, 65535):
        yield ether / IP(src=OWN4, dst=V4, len=length) / TCP(dport=80, flags="S")
        yield ether / IPv6(src=OWN6, dst=V6, plen=length, nh=6) / TCP(dport=80, flags="S")
        yield ip / UDP(sport=4000, dport=7, len=length) / Raw(b"y" * 8)
    for words in range(16):
        yield ether / IP(src=OWN4, dst=V4, ihl=words) / TCP(dport=80, flags="S")
        yield ip / TCP(dport=80, flags="S", dataofs=words)
    for version in range(16):
        yield ether / IP(src=OWN4, dst=V4, version=version) / UDP(dport=7)


def wrong_checksums():
    for _ in range(20):
        bad = random.randrange(1, 0xffff)
        yield ether / IP(src=OWN4, dst=V4, chksum=bad) / TCP(dport=80, flags="S")
        yield ip / TCP(dport=80, flags="S", chksum=bad)
        yield ip / UDP(dport=7, chksum=bad) / Raw(b"z")
        yield ip / ICMP(chksum=bad)
        yield ip6 / TCP(dport=80, flags="S", chksum=bad)
        yield ip6 / UDP(dport=7, chksum=bad)
        yield ip6 / ICMPv6EchoRequest(cksum=bad)
    yield ip6 / UDP(dport=7, chksum=0)  # not allowed in IPv6. [RFC 8200, 8.1]


def fragments():
    whole = IP(src=OWN4, dst=V4, id=1) / UDP(sport=4000, dport=7) / Raw(b"f" * 4000)
    parts = fragment(whole, 512)
    yield from (ether / p for p in parts[:-1])                       # never complete
    yield from (ether / p for p in reversed(parts))                  # backwards
    yield from (ether / p for p in parts + parts)                    # twice
    for offset in (0, 1, 2, 3):                                      # overlapping
        yield ether / IP(src=OWN4, dst=V4, id=2, frag=offset, flags="MF", proto=17) / Raw(noise(24))
    yield ether / IP(src=OWN4, dst=V4, id=3, frag=8191, proto=17) / Raw(noise(100))  # beyond 65,535
    for i in range(300):                                             # many first parts
        yield ether / IP(src=OWN4, dst=V4, id=1000 + i, flags="MF", proto=17) / Raw(noise(64))
        yield ip6 / IPv6ExtHdrFragment(id=i, m=1) / Raw(noise(64))
    yield ether / IP(src=OWN4, dst=V4, flags="MF", proto=6) / Raw(noise(8))          # a TCP header in two parts
    yield ip6 / IPv6ExtHdrFragment(offset=8191, m=0) / Raw(noise(64))


def options():
    for kind in range(256):
        yield ip / TCP(dport=80, flags="S", options=[(kind, b"")]) if kind > 1 else tcp
    for body in (b"\x02\x00", b"\x02\x01", b"\x02\xff\x05\xb4", b"\x05\x0a\x00", b"\x08\x00\x00\x00", b"\x03\x03\xff\x00"):
        data = bytearray(raw(ip / TCP(dport=80, flags="S", dataofs=5 + (len(body) + 3) // 4) / Raw(body.ljust(-(-len(body) // 4) * 4, b"\0"))))
        yield bytes(data)
    for option in (b"\x07\x00", b"\x07\x01", b"\x83\xff\x04\x00", b"\x94\x04", b"\x44\x28\x05\x00"):
        yield ether / IP(src=OWN4, dst=V4, ihl=6, proto=6) / Raw(option.ljust(4, b"\0")) / TCP(dport=80, flags="S")
    for header in (IPv6ExtHdrHopByHop, IPv6ExtHdrDestOpt, IPv6ExtHdrRouting):
        for length in (0, 1, 5, 255):
            yield ip6 / header(len=length) / TCP(dport=80)
    chain = ip6
    for _ in range(40):
        chain = chain / IPv6ExtHdrDestOpt()
    yield chain / TCP(dport=80)


def addresses():
    for source in ("0.0.0.0", "255.255.255.255", "127.0.0.1", "224.0.0.1", "10.77.0.255", V4):
        yield ether / IP(src=source, dst=V4) / TCP(dport=80, flags="S")
        yield ether / IP(src=source, dst=V4) / UDP(dport=7) / Raw(b"a")
        yield ether / IP(src=source, dst=V4) / ICMP()
    for source in ("::", "::1", "ff02::1", V6):
        yield ether / IPv6(src=source, dst=V6) / TCP(dport=80, flags="S")
        yield ether / IPv6(src=source, dst=V6) / UDP(dport=7) / Raw(b"a")
    for target in ("255.255.255.255", "224.0.0.1", "10.77.0.255"):
        yield ether / IP(src=OWN4, dst=target) / TCP(dport=80, flags="S")
        yield ether / IP(src=OWN4, dst=target) / UDP(sport=7, dport=7) / Raw(b"loop")
    yield Ether(dst=MAC, src=MAC) / IP(src=V4, dst=V4) / TCP(sport=80, dport=80, flags="S")  # "land"


def neighbours():
    for op in range(6):
        for length in (0, 1, 6, 8, 255):
            yield ether / ARP(op=op, psrc=OWN4, pdst=V4, hwlen=length)
    yield ether / ARP(op=2, psrc=V4, pdst=OWN4, hwsrc="02:00:00:00:00:01")
    yield ether / ARP(op=1, psrc="255.255.255.255", pdst=V4)
    for length in (0, 1, 200):
        yield ip6 / ICMPv6ND_NS(tgt=V6) / Raw(bytes([1, length]) + noise(6))
        yield ip6 / ICMPv6ND_NA(tgt=OWN6) / Raw(bytes([2, length]) + noise(6))
        yield ip6 / ICMPv6ND_RA() / Raw(bytes([3, length]) + noise(30))
    for _ in range(300):  # a table that must not grow without end
        yield ether / ARP(op=2, psrc=f"10.77.{random.randrange(256)}.{random.randrange(1, 255)}", pdst=V4, hwsrc="02:00:00:00:00:02")


def segments():
    """TCP segments out of any connection's order."""
    for flags in ("", "F", "R", "SF", "SR", "FSRPAU", "A", "FA", "PA", "SA"):
        yield ip / TCP(sport=4001, dport=80, flags=flags, seq=random.getrandbits(32), ack=random.getrandbits(32)) / Raw(noise(40))
    yield ip / TCP(sport=4001, dport=0, flags="S")
    yield ip / TCP(sport=0, dport=80, flags="S")
    yield ip / TCP(sport=4002, dport=80, flags="S", window=0) / Raw(noise(1000))


def icmp_lies():
    inner = IP(src=V4, dst=OWN4) / TCP(sport=80, dport=4000)
    for kind in range(45):
        for code in (0, 1, 3, 4, 255):
            yield ip / ICMP(type=kind, code=code) / Raw(raw(inner)[:28])
            yield ip / ICMP(type=kind, code=code) / Raw(noise(random.randrange(28)))
    yield ip / ICMP(type=3, code=4, nexthopmtu=0) / inner
    yield ip / ICMP(type=3, code=4, nexthopmtu=1) / inner


def dhcp_lies():
    for _ in range(50):
        reply = BOOTP(op=2, yiaddr="10.77.0.66", xid=random.getrandbits(32)) / DHCP(options=[("message-type", random.choice(["offer", "ack", "nak"]))])
        yield ether / IP(src=OWN4, dst="255.255.255.255") / UDP(sport=67, dport=68) / reply
        yield ether / IP(src=OWN4, dst="255.255.255.255") / UDP(sport=67, dport=68) / Raw(noise(random.randrange(400)))


def random_frames():
    for _ in range(1500):
        kind = random.choice((0x0800, 0x0806, 0x86dd, 0x8100, 0x0001, 0x88cc))
        body = noise(random.randrange(0, 200))
        if kind == 0x0800 and body:
            body = b"\x45" + body[1:]
        yield raw(ether)[:12] + kind.to_bytes(2, "big") + body
    whole = raw(tcp / Raw(b"GET / HTTP/1.1\r\n\r\n"))
    for _ in range(1500):
        data = bytearray(whole)
        for _ in range(random.randrange(1, 4)):
            data[random.randrange(12, len(data))] = random.randrange(256)
        yield bytes(data)


KINDS = {f.__name__: f for f in (cut_short, lying_lengths, wrong_checksums, fragments, options, addresses, neighbours, segments,
                                 icmp_lies, dhcp_lies, random_frames)}
sending = conf.L2socket(iface=INTERFACE)
count = failed = 0
for frame in KINDS[KIND]():
    data = raw(frame) if not isinstance(frame, bytes) else frame
    try:
        sending.send(data[:1514])
        count += 1
    except OSError:  # the host's kernel refuses some lengths itself
        failed += 1
print(f"{count} frames sent, {failed} refused by this host")
