use std::net::IpAddr;

use super::Findings;

/// Virtual IPs that one object may have.
pub(crate) const MAX_VIRTUAL_IPS: usize = 64;

/// The addresses, each once.
pub(super) fn check_virtual_ips(raw: &[String], findings: &mut Findings) -> Vec<IpAddr> {
    let mut addresses = Vec::with_capacity(raw.len());
    for (index, text) in raw.iter().enumerate() {
        match virtual_ip(text) {
            Some(ip) if !addresses.contains(&ip) => addresses.push(ip),
            Some(_) => {}
            None => {
                let path = format!("spec.portcullis.virtualIPs[{index}]");
                findings.problem(path, "must be the IP address of one machine");
            }
        }
    }
    addresses
}

/// An address to which a client can connect.
pub(crate) fn virtual_ip(text: &str) -> Option<IpAddr> {
    let ip: IpAddr = text.parse().ok()?;
    let ip = ip.to_canonical();
    let is_broadcast = matches!(ip, IpAddr::V4(ip) if ip.is_broadcast());
    (!ip.is_unspecified() && !ip.is_multicast() && !is_broadcast).then_some(ip)
}
