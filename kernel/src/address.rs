//! Socket addresses as the ABI has them: a length byte, a family byte, the port in network order.

use core::net::{Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV4, SocketAddrV6};

use hermit_abi::errno::{EAFNOSUPPORT, EINVAL};
use hermit_abi::{AF_INET, AF_INET6, sockaddr_in, sockaddr_in6};

/// A positive error number.
type Errno = i32;

const V4: usize = size_of::<sockaddr_in>();
const V6: usize = size_of::<sockaddr_in6>();

/// Reads an address. The length byte is not looked at: `std` leaves it zero.
pub fn from_c(bytes: &[u8]) -> Result<SocketAddr, Errno> {
    let field = |at: usize, len: usize| bytes.get(at..at + len).ok_or(EINVAL);
    let family = i32::from(*bytes.get(1).ok_or(EINVAL)?);
    let port = u16::from_be_bytes(field(2, 2)?.try_into().map_err(|_| EINVAL)?);
    match family {
        AF_INET if bytes.len() >= V4 => {
            let ip: [u8; 4] = field(4, 4)?.try_into().map_err(|_| EINVAL)?;
            Ok(SocketAddrV4::new(Ipv4Addr::from(ip), port).into())
        }
        AF_INET6 if bytes.len() >= V6 => {
            let word = |at| -> Result<u32, Errno> {
                Ok(u32::from_ne_bytes(field(at, 4)?.try_into().map_err(|_| EINVAL)?))
            };
            let ip: [u8; 16] = field(8, 16)?.try_into().map_err(|_| EINVAL)?;
            Ok(SocketAddrV6::new(Ipv6Addr::from(ip), port, word(4)?, word(24)?).into())
        }
        AF_INET | AF_INET6 => Err(EINVAL),
        _ => Err(EAFNOSUPPORT),
    }
}

/// Writes an address; how many bytes of the buffer it takes. Fields lie as in `sockaddr_in` and `sockaddr_in6`.
pub fn to_c(address: SocketAddr, out: &mut [u8; V6]) -> usize {
    *out = [0; V6];
    out[2..4].copy_from_slice(&address.port().to_be_bytes());
    match address {
        SocketAddr::V4(v4) => {
            out[0] = V4 as u8;
            out[1] = AF_INET as u8;
            out[4..8].copy_from_slice(&v4.ip().octets());
            V4
        }
        SocketAddr::V6(v6) => {
            out[0] = V6 as u8;
            out[1] = AF_INET6 as u8;
            out[4..8].copy_from_slice(&v6.flowinfo().to_ne_bytes());
            out[8..24].copy_from_slice(&v6.ip().octets());
            out[24..28].copy_from_slice(&v6.scope_id().to_ne_bytes());
            V6
        }
    }
}

const _: () = assert!(V4 == 16 && V6 == 28);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_families_as_the_abi_lays_them_out() {
        // sa_len, sa_family, port and address in network order: 10.1.2.3:8080.
        let v4 = [16, 3, 0x1f, 0x90, 10, 1, 2, 3, 0, 0, 0, 0, 0, 0, 0, 0];
        let mut out = [0xa5; V6];
        assert_eq!(to_c("10.1.2.3:8080".parse().unwrap(), &mut out), 16);
        assert_eq!(out[..16], v4);
        assert_eq!(from_c(&v4), Ok("10.1.2.3:8080".parse().unwrap()));

        let mut v6 = [0; 28];
        v6[..4].copy_from_slice(&[28, 1, 0, 53]);
        v6[8..10].copy_from_slice(&[0xfe, 0x80]);
        v6[23] = 1;
        v6[24..28].copy_from_slice(&7u32.to_ne_bytes());
        let address = SocketAddrV6::new("fe80::1".parse().unwrap(), 53, 0, 7);
        assert_eq!(to_c(address.into(), &mut out), 28);
        assert_eq!(out, v6);
        assert_eq!(from_c(&v6), Ok(address.into()));
    }

    #[test]
    fn short_or_foreign_ones_are_refused() {
        assert_eq!(from_c(&[]), Err(EINVAL));
        assert_eq!(from_c(&[0, 3, 0, 80, 1, 2, 3]), Err(EINVAL));
        assert_eq!(from_c(&[0, 1, 0, 80, 1, 2, 3, 4, 0, 0, 0, 0, 0, 0, 0, 0]), Err(EINVAL));
        assert_eq!(from_c(&[0, 2, 0, 80, 1, 2, 3, 4, 0, 0, 0, 0, 0, 0, 0, 0]), Err(EAFNOSUPPORT));
    }
}
