#!/usr/bin/python3
"""Makes the frames the offload tests compare with. Needs scapy (Debian: python3-scapy 2.5.0).

    ./generate.py frames > frames.txt
    ./generate.py segments > segments.txt
    ./generate.py dhcp > dhcp.txt
    ./generate.py ndp > ndp.txt
    ./generate.py dns > dns.txt
    ./generate.py ntp > ntp.txt

Output is the same on every run: the random generator is seeded.

frames.txt: one frame a line, as smoltcp writes it and as it must be on the wire:
    name network_len transport bytes_with_sums bytes_with_zero_sums
segments.txt: a TCP frame larger than the MTU, and what a segmenting card makes of it:
    large name segment_size bytes_with_zero_tcp_sum
    piece bytes
dhcp.txt: a DHCP conversation, UDP payloads: name bytes
ndp.txt: neighbour discovery, ICMPv6 messages: name bytes
dns.txt: DNS messages, number 0x1234: name bytes
ntp.txt: NTP messages around 2026-11-30 21:00:00 UTC: name bytes
The cutting is done here, in Python, from the description in RFC 9293 and RFC 3168; sums are
scapy's.
"""
import random
import sys

from scapy.layers.dhcp import BOOTP, DHCP
from scapy.layers.dns import DNS, DNSQR, DNSRR, DNSRROPT, DNSRRSOA
from scapy.layers.inet import ICMP, IP, TCP, UDP
from scapy.layers.inet6 import (ICMPv6EchoRequest, ICMPv6ND_NS, ICMPv6ND_RA, ICMPv6ND_RS,
                                ICMPv6NDOptMTU, ICMPv6NDOptPrefixInfo, ICMPv6NDOptRDNSS,
                                ICMPv6NDOptSrcLLAddr, IPv6, IPv6ExtHdrDestOpt, IPv6ExtHdrFragment,
                                IPv6ExtHdrHopByHop, PadN, RouterAlert)
from scapy.layers.l2 import ARP, Dot1AD, Dot1Q, Ether
from scapy.layers.ntp import NTPHeader
from scapy.packet import Raw
from scapy.layers.inet import IPOption_NOP, IPOption_RR

random.seed(20261130)
MACS = dict(src="02:00:00:00:00:01", dst="02:00:00:00:00:02")
LINKS = {
    "plain": lambda: Ether(**MACS),
    "vlan": lambda: Ether(**MACS) / Dot1Q(vlan=42, prio=3),
    "qinq": lambda: Ether(**MACS) / Dot1AD(vlan=7) / Dot1Q(vlan=42),
}
NETWORKS = {
    "ip4": (lambda: IP(src="192.0.2.1", dst="198.51.100.77", id=0x1234, flags="DF", ttl=64), 20),
    "ip4nop": (lambda: IP(src="10.0.0.1", dst="10.255.255.254", id=1, options=[IPOption_NOP()] * 3),
               24),
    "ip4rr": (lambda: IP(src="10.0.0.1", dst="10.9.8.7",
                         options=[IPOption_RR(routers=["1.2.3.4"] * 9)]), 60),
    "ip6": (lambda: IPv6(src="2001:db8::1", dst="2001:db8:ffff::77", hlim=64, fl=0x12345), 40),
    "ip6hbh": (lambda: IPv6(src="fe80::1", dst="ff02::16") / IPv6ExtHdrHopByHop(
        options=[RouterAlert(), PadN(optdata=b"")]), 48),
}
TRANSPORTS = {
    "tcp": lambda: TCP(sport=49152, dport=80, seq=0xfffffff0, ack=77, flags="PA", window=4096),
    "tcpts": lambda: TCP(sport=1, dport=65535, seq=1, ack=2, flags="A", window=1,
                         options=[("NOP", None), ("NOP", None), ("Timestamp", (123456, 654321))]),
    "tcpsyn": lambda: TCP(sport=5, dport=6, seq=0, flags="S", options=[
        ("MSS", 1460), ("SAckOK", b""), ("WScale", 7)]),
    "udp": lambda: UDP(sport=68, dport=67),
    "icmp": None,
}


def zeroed(frame, offset):
    return frame[:offset] + b"\0\0" + frame[offset + 2:]


def frames():
    for link, make_link in LINKS.items():
        for network, (make_network, network_len) in NETWORKS.items():
            for transport, make_transport in TRANSPORTS.items():
                for size in (0, 1, 2, 63, 1400):
                    payload = random.randbytes(size)
                    if transport == "icmp":
                        layer = ICMP(id=1, seq=2) if network.startswith("ip4") else \
                            ICMPv6EchoRequest(id=1, seq=2)
                    else:
                        layer = make_transport()
                    frame = bytes(make_link() / make_network() / layer / Raw(payload))
                    start = len(bytes(make_link())) + network_len
                    bare = frame
                    if transport.startswith("tcp"):
                        bare = zeroed(frame, start + 16)
                    elif transport == "udp":
                        bare = zeroed(frame, start + 6)
                    name = f"{link}-{network}-{transport}-{size}"
                    print(name, network_len, transport, frame.hex(), bare.hex())
    # A datagram whose UDP sum comes out as zero and must be sent as ffff.
    for name, network in (("ip4", IP(src="1.1.1.1", dst="2.2.2.2")),
                          ("ip6", IPv6(src="2001:db8::1", dst="2001:db8::2"))):
        base = bytes(Ether(**MACS) / network / UDP(sport=1, dport=2) / Raw(b"\0\0"))
        offset = len(base) - 4
        sum_field = int.from_bytes(base[offset:offset + 2], "big")
        frame = bytes(Ether(**MACS) / network / UDP(sport=1, dport=2)
                      / Raw(sum_field.to_bytes(2, "big")))
        assert frame[offset:offset + 2] == b"\xff\xff", frame.hex()
        length = 20 if name == "ip4" else 40
        print(f"plain-{name}-udpzero-2", length, "udp", frame.hex(), zeroed(frame, offset).hex())
    others = {
        "arp": Ether(**MACS) / ARP(pdst="192.0.2.1"),
        "ip6dest-tcp": Ether(**MACS) / IPv6(src="2001:db8::1", dst="2001:db8::2")
        / IPv6ExtHdrDestOpt(options=[PadN(optdata=b"\0\0\0\0")]) / TCP(),
        "ip6frag-udp": Ether(**MACS) / IPv6(src="2001:db8::1", dst="2001:db8::2")
        / IPv6ExtHdrFragment(offset=0, m=1, id=9) / UDP(sport=1, dport=2, len=99, chksum=0) / Raw(b"x" * 16),
        "ip4frag-first": Ether(**MACS) / IP(src="1.1.1.1", dst="2.2.2.2", flags="MF", id=5)
        / UDP(sport=1, dport=2, len=2000, chksum=0) / Raw(b"x" * 64),
        "ip4frag-last": Ether(**MACS) / IP(src="1.1.1.1", dst="2.2.2.2", frag=9, id=5, proto=17)
        / Raw(b"x" * 65),
    }
    for name, packet in others.items():
        raw = bytes(packet)
        print(name, 0, "other", raw.hex(), raw.hex())


def cut(link, network, tcp, payload, size):
    pieces = range(0, max(len(payload), 1), size)
    for index, start in enumerate(pieces):
        segment = tcp.copy()
        segment.seq = (tcp.seq + start) % 2**32
        flags = str(tcp.flags)
        if start + size < len(payload):
            flags = flags.replace("P", "").replace("F", "")
        if index > 0:
            flags = flags.replace("C", "")
        segment.flags = flags
        ip = network.copy()
        if IP in ip:
            ip.id = (network.id + index) % 2**16
        yield bytes(link / ip / segment / Raw(payload[start:start + size]))


def segments():
    cases = []
    for link in LINKS:
        for network in ("ip4", "ip4nop", "ip6"):
            for transport in ("tcp", "tcpts"):
                cases += [(link, network, transport, 536, 536 * 3, None)]
    for size, total, flags in ((1460, 1461, "FPA"), (1460, 20000, "CPA"), (1448, 14480, "CEFPA"),
                               (100, 1001, "A"), (1, 7, "PA"), (999, 5001, "PAU"),
                               (1440, 33000, "PA")):
        for network in ("ip4", "ip6"):
            cases += [("plain", network, "tcpts", size, total, flags)]
    for link, network, transport, size, total, flags in cases:
        make_network, network_len = NETWORKS[network]
        ip, tcp = make_network(), TRANSPORTS[transport]()
        if network == "ip4":
            ip.id = 0xfffe
        if flags:
            tcp.flags = flags
        payload = random.randbytes(total)
        ether = LINKS[link]()
        large = bytes(ether / ip / tcp / Raw(payload))
        field = len(bytes(ether)) + network_len + 16
        print("large", f"{link}-{network}-{transport}-{size}-{total}-{flags}", size,
              zeroed(large, field).hex())
        for piece in cut(ether, ip, tcp, payload, size):
            print("piece", piece.hex())


def dhcp():
    mac = bytes.fromhex("020000000001")
    ours = [("max_dhcp_size", 1472), ("param_req_list", [1, 3, 6, 12, 15, 26, 42, 58, 59]),
            ("hostname", b"oar"), "end"]
    client, server = ("client_id", b"\x01" + mac), ("server_id", "192.0.2.1")
    theirs = [server, ("lease_time", 3600)]
    mask = ("subnet_mask", "255.255.255.0")
    conversation = {
        "discover": (1, {}, [("message-type", "discover"), client, *ours]),
        "offer": (2, {"yiaddr": "192.0.2.50"}, [("message-type", "offer"), *theirs, mask, "end"]),
        "request": (1, {"secs": 1}, [("message-type", "request"), client, server,
                                     ("requested_addr", "192.0.2.50"), *ours]),
        "ack": (2, {"yiaddr": "192.0.2.50"}, [
            ("message-type", "ack"), *theirs, ("renewal_time", 1000), ("rebinding_time", 3000), mask,
            ("router", "192.0.2.254", "192.0.2.253"),
            ("name_server", "192.0.2.53", "0.0.0.0", "192.0.2.54"), ("interface-mtu", 1400),
            ("NTP_server", "192.0.2.123"), ("hostname", b"galley"), ("domain", b"example.net"),
            "end"]),
        "renew": (1, {"ciaddr": "192.0.2.50"}, [("message-type", "request"), client, *ours]),
        "reboot": (1, {}, [("message-type", "request"), client, ("requested_addr", "192.0.2.50"),
                           *ours]),
        "nak": (2, {}, [("message-type", "nak"), server, "end"]),
    }
    for name, (op, fields, options) in conversation.items():
        packet = BOOTP(op=op, chaddr=mac, xid=0x11223344, **fields) / DHCP(options=options)
        print(name, bytes(packet).hex())


def ndp():
    mac, us = "02:34:56:78:9a:bc", "fe80::34:56ff:fe78:9abc"
    messages = {
        "duplicate?": ICMPv6ND_NS(tgt=us),
        "solicitation-early": ICMPv6ND_RS(),
        "solicitation": ICMPv6ND_RS() / ICMPv6NDOptSrcLLAddr(lladdr=mac),
        "advertisement": ICMPv6ND_RA(chlim=64, routerlifetime=1800, prf=0)
        / ICMPv6NDOptSrcLLAddr(lladdr="02:00:00:00:00:01")
        / ICMPv6NDOptPrefixInfo(prefixlen=64, L=1, A=1, validlifetime=86400,
                                preferredlifetime=14400, prefix="2001:db8:1:2::")
        / ICMPv6NDOptPrefixInfo(prefixlen=64, L=0, A=1, validlifetime=0xffffffff,
                                preferredlifetime=0xffffffff, prefix="2001:db8:3::")
        / ICMPv6NDOptPrefixInfo(prefixlen=48, L=1, A=0, prefix="2001:db8:4::")
        / ICMPv6NDOptMTU(mtu=1400)
        / ICMPv6NDOptRDNSS(lifetime=600, dns=["2001:db8::53", "2001:db8::5353"]),
    }
    for name, message in messages.items():
        packet = IPv6(src="fe80::1", dst="ff02::1", hlim=255) / message
        print(name, bytes(packet)[40:].hex())


def dns():
    name = "www.example.net"
    question = {kind: DNSQR(qname=name, qtype=kind) for kind in ("A", "AAAA")}

    def reply(kind, *records, **fields):
        answers = None
        for record in records:
            answers = record if answers is None else answers / record
        fields = dict(ra=1) | fields
        return DNS(id=0x1234, qr=1, rd=1, qd=question[kind], an=answers, ancount=len(records), **fields)

    def a(owner, address, ttl=300):
        return DNSRR(rrname=owner, type="A", ttl=ttl, rdata=address)

    def aaaa(owner, address, ttl=300):
        return DNSRR(rrname=owner, type="AAAA", ttl=ttl, rdata=address)

    def cname(owner, target, ttl=60):
        return DNSRR(rrname=owner, type="CNAME", ttl=ttl, rdata=target)

    soa = DNSRRSOA(rrname="example.net", mname="ns.example.net", rname="root.example.net", minimum=60)
    messages = {
        "query-a": DNS(id=0x1234, rd=1, qd=question["A"], ar=DNSRROPT(rclass=1232, z=0)),
        "query-aaaa": DNS(id=0x1234, rd=1, qd=question["AAAA"], ar=DNSRROPT(rclass=1232, z=0)),
        "query-plain": DNS(id=0x1234, rd=1, qd=question["A"]),
        "one": reply("A", a(name, "192.0.2.80")),
        "one6": reply("AAAA", aaaa(name, "2001:db8::80")),
        "three": reply("A", a(name, "192.0.2.80"), a(name, "192.0.2.81"), a(name, "0.0.0.0"),
                       a(name, "192.0.2.80")),
        "chain": reply("A", cname(name, "lb.example.org"), cname("lb.example.org", "x.example.com"),
                       a("x.example.com", "192.0.2.82")),
        "reversed": reply("A", a("x.example.com", "192.0.2.82"),
                          cname("lb.example.org", "x.example.com"), cname(name, "lb.example.org")),
        "dangling": reply("A", cname(name, "lb.example.org")),
        "circle": reply("A", cname(name, "lb.example.org"), cname("lb.example.org", name)),
        "unrelated": reply("A", a("bank.example", "192.0.2.66")),
        "nothing": reply("A", ns=soa),
        "nothing6": reply("AAAA", ns=soa),
        "nxdomain": reply("A", ns=soa, rcode=3),
        "nxdomain6": reply("AAAA", ns=soa, rcode=3),
        "servfail": reply("A", rcode=2),
        "refused": reply("A", rcode=5),
        "formerr": DNS(id=0x1234, qr=1, rd=1, qd=None, rcode=1),
        "truncated": reply("A", tc=1),
        "truncated-some": reply("A", a(name, "192.0.2.80"), tc=1),
    }
    for message, packet in messages.items():
        print(message, bytes(packet).hex())


def ntp():
    cookie = 0x0102030405060708
    received = (1796072400 + 2208988800) << 32
    answer = dict(version=4, mode=4, poll=6, precision=236, delay=0.01, dispersion=0.02,
                  id="192.0.2.200", ref=received - (60 << 32), orig=0, recv=0, sent=0)

    def raw(**fields):
        header = bytearray(bytes(NTPHeader(**fields)))
        return header

    def stamp(header, offset, value):
        header[offset:offset + 8] = value.to_bytes(8, "big")
        return header

    def reply(**fields):
        header = raw(**(answer | fields))
        stamp(header, 24, cookie)
        stamp(header, 32, received)
        return stamp(header, 40, received + (1 << 30))

    question = raw(version=4, mode=3, stratum=0, poll=0, precision=0, delay=0, dispersion=0,
                   ref_id=b"\0\0\0\0", ref=0, orig=0, recv=0, sent=0)
    messages = {
        "question": stamp(question, 40, cookie),
        "answer": reply(stratum=2),
        "rate": reply(stratum=0, ref_id=b"RATE"),
        "deny": reply(stratum=0, ref_id=b"DENY"),
    }
    for name, message in messages.items():
        print(name, bytes(message).hex())


{"dhcp": dhcp, "dns": dns, "frames": frames, "ndp": ndp, "ntp": ntp, "segments": segments}[sys.argv[1]]()
