use std::net::IpAddr;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// One host of the store, with an etcd and a kube-apiserver.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct Member {
    pub(super) name: String,
    /// A DNS name or an IP address, by which the other members and clients reach it.
    pub(super) host: String,
    pub(super) peer_port: u16,
    pub(super) client_port: u16,
    pub(super) api_port: u16,
}

/// Why a member cannot be understood.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum MemberError {
    #[error("it must be NAME=HOST")]
    Shape,
    #[error("the name must be of a-z, 0-9 and -, with 1 to 63 characters")]
    Name,
    #[error("the host must be a DNS name or an IP address")]
    Host,
    #[error("{0} is none of peer=PORT, client=PORT and api=PORT")]
    Port(String),
    #[error("two of its ports are the same")]
    SamePort,
}

impl Member {
    /// The member of a store on one machine.
    pub(super) fn local() -> Self {
        Self::at("local", "127.0.0.1")
    }

    fn at(name: &str, host: &str) -> Self {
        Self { name: name.to_owned(), host: host.to_owned(), peer_port: 2380, client_port: 2379, api_port: 6444 }
    }

    pub(super) fn peer_url(&self) -> String {
        self.url(self.peer_port)
    }

    pub(super) fn client_url(&self) -> String {
        self.url(self.client_port)
    }

    pub(super) fn api_url(&self) -> String {
        self.url(self.api_port)
    }

    fn url(&self, port: u16) -> String {
        format!("https://{}:{port}", bracketed(&self.host))
    }

    /// The address at which its servers listen: etcd listens at no DNS name.
    pub(super) fn listen_ip(&self) -> String {
        self.host.parse::<IpAddr>().map_or_else(|_| "0.0.0.0".to_owned(), |ip| ip.to_string())
    }

    pub(super) fn listen_url(&self, port: u16) -> String {
        format!("https://{}:{port}", bracketed(&self.listen_ip()))
    }
}

fn bracketed(host: &str) -> String {
    if host.contains(':') { format!("[{host}]") } else { host.to_owned() }
}

impl FromStr for Member {
    type Err = MemberError;

    fn from_str(text: &str) -> Result<Self, MemberError> {
        let (name, rest) = text.split_once('=').ok_or(MemberError::Shape)?;
        if !is_label(name) {
            return Err(MemberError::Name);
        }
        let mut parts = rest.split(',');
        let host = parts.next().unwrap_or_default();
        let mut member = match host.strip_prefix("https://") {
            Some(authority) => {
                let (host, port) = authority.rsplit_once(':').ok_or(MemberError::Host)?;
                let peer_port = port.parse().map_err(|_| MemberError::Port(port.to_owned()))?;
                Self { peer_port, ..Self::at(name, host.trim_start_matches('[').trim_end_matches(']')) }
            }
            None => Self::at(name, host),
        };
        if !is_host(&member.host) {
            return Err(MemberError::Host);
        }
        for part in parts {
            member.set_port(part)?;
        }
        let Self { peer_port, client_port, api_port, .. } = member;
        if peer_port == client_port || client_port == api_port || peer_port == api_port {
            return Err(MemberError::SamePort);
        }
        Ok(member)
    }
}

impl Member {
    fn set_port(&mut self, part: &str) -> Result<(), MemberError> {
        let wrong = || MemberError::Port(part.to_owned());
        let (which, port) = part.split_once('=').ok_or_else(wrong)?;
        let port: u16 = port.parse().ok().filter(|port| *port > 0).ok_or_else(wrong)?;
        match which {
            "peer" => self.peer_port = port,
            "client" => self.client_port = port,
            "api" => self.api_port = port,
            _ => return Err(wrong()),
        }
        Ok(())
    }
}

/// A name that is safe in a path, a flag of etcd and the name of an object.
pub(super) fn is_label(name: &str) -> bool {
    let is_good = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
    (1..=63).contains(&name.len()) && name.bytes().all(is_good) && !name.starts_with('-') && !name.ends_with('-')
}

/// A DNS name or an IP address, and nothing that a shell or a URL would read otherwise.
pub(super) fn is_host(host: &str) -> bool {
    host.parse::<IpAddr>().is_ok() || (host.len() <= 253 && host.split('.').all(is_label))
}

#[cfg(test)]
mod tests {
    use super::{Member, MemberError};

    #[test]
    fn members_are_read() {
        let table = [
            ("a=10.0.0.1", Ok(("10.0.0.1", 2380, 2379, 6444))),
            ("a=https://10.0.0.1:3380", Ok(("10.0.0.1", 3380, 2379, 6444))),
            ("a=https://[fd00::1]:3380,api=7000", Ok(("fd00::1", 3380, 2379, 7000))),
            ("a=one.example.com,peer=1,client=2,api=3", Ok(("one.example.com", 1, 2, 3))),
            ("10.0.0.1", Err(MemberError::Shape)),
            ("../x=10.0.0.1", Err(MemberError::Name)),
            ("a=$(id)", Err(MemberError::Host)),
            ("a=", Err(MemberError::Host)),
            ("a=10.0.0.1,peer=2379", Err(MemberError::SamePort)),
            ("a=10.0.0.1,web=1", Err(MemberError::Port("web=1".to_owned()))),
            ("a=10.0.0.1,api=0", Err(MemberError::Port("api=0".to_owned()))),
        ];
        for (text, expected) in table {
            let read = text.parse::<Member>();
            let read = read.as_ref().map(|one| (one.host.as_str(), one.peer_port, one.client_port, one.api_port));
            assert_eq!(read, expected.as_ref().map(|one| *one), "{text}");
        }
    }

    #[test]
    fn addresses_are_bracketed_and_names_are_not_listened_at() {
        let six: Member = "a=fd00::1".parse().unwrap();
        assert_eq!((six.api_url().as_str(), six.listen_ip().as_str()), ("https://[fd00::1]:6444", "fd00::1"));
        let named: Member = "a=one.example.com".parse().unwrap();
        assert_eq!(named.listen_url(named.peer_port), "https://0.0.0.0:2380");
    }
}
