use std::fmt;
use std::str::FromStr;

use http::uri::Authority;

const PORT: u16 = 6_379;
const SENTINEL_PORT: u16 = 26_379;

/// The address of a store, as `--limits-store` has it:
///
/// - `redis://[USER@]HOST[:PORT][/DATABASE]`, one server
/// - `redis+sentinel://[USER@]HOST[:PORT],…/SERVICE[/DATABASE]`, the server that these sentinels name as the service's master
///
/// With `rediss` in the place of `redis` both speak TLS. No password: a command line is for all to read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoreAddress {
    pub(crate) is_tls: bool,
    /// The user of Redis' access control lists; empty for the default one.
    pub(crate) user: String,
    /// Hosts without brackets, and ports: one server, or the sentinels.
    pub(crate) hosts: Vec<(String, u16)>,
    /// The name of the master that the sentinels watch; `None` for one server.
    pub(crate) service: Option<String>,
    pub(crate) database: i64,
    text: String,
}

/// Why an address is none. The operator's fault.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum AddressError {
    /// None of the four schemes.
    #[error("begins with none of redis://, rediss://, redis+sentinel:// and rediss+sentinel://")]
    Scheme,
    /// The password would be for all to read.
    #[error("has a password; put it into a file, --limits-store-password-file")]
    Password,
    /// This is no host with a port.
    #[error("has no host and port in a place of one")]
    Host,
    /// Sentinels need the name of what they watch.
    #[error("has sentinels, but not the name of the service that they watch: redis+sentinel://HOST/SERVICE")]
    Service,
    /// This is no number.
    #[error("has no number in the place of a database")]
    Database,
    /// The store would take it for the default user.
    #[error("names a user without a password; put it into a file, --limits-store-password-file")]
    NoPassword,
}

impl FromStr for StoreAddress {
    type Err = AddressError;

    fn from_str(text: &str) -> Result<Self, AddressError> {
        let (scheme, rest) = text.split_once("://").ok_or(AddressError::Scheme)?;
        let (is_tls, is_sentinel) = match scheme {
            "redis" => (false, false),
            "rediss" => (true, false),
            "redis+sentinel" => (false, true),
            "rediss+sentinel" => (true, true),
            _ => return Err(AddressError::Scheme),
        };
        // A password may hold a slash.
        if rest.rsplit_once('@').is_some_and(|(user, _)| user.contains(':')) {
            return Err(AddressError::Password);
        }
        let (authority, path) = rest.split_once('/').unwrap_or((rest, ""));
        let (user, hosts) = authority.rsplit_once('@').unwrap_or(("", authority));
        let port = if is_sentinel { SENTINEL_PORT } else { PORT };
        // Only sentinels are several.
        let hosts = if is_sentinel { hosts.split(',').collect() } else { vec![hosts] };
        let hosts = hosts.into_iter().map(|one| host(one, port)).collect::<Result<_, _>>()?;
        let (service, database) = match (is_sentinel, path.split_once('/')) {
            (false, _) => (None, path),
            (true, None) => (Some(path), ""),
            (true, Some((service, database))) => (Some(service), database),
        };
        if service == Some("") {
            return Err(AddressError::Service);
        }
        let number = if database.is_empty() { Some(0) } else { database.parse().ok().filter(|number| *number >= 0) };
        Ok(StoreAddress {
            is_tls,
            user: user.to_owned(),
            hosts,
            service: service.map(str::to_owned),
            database: number.ok_or(AddressError::Database)?,
            text: text.to_owned(),
        })
    }
}

impl StoreAddress {
    /// Whether it names a user, who has a password.
    pub fn has_user(&self) -> bool {
        !self.user.is_empty()
    }
}

impl fmt::Display for StoreAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

fn host(text: &str, default: u16) -> Result<(String, u16), AddressError> {
    let authority: Authority = text.parse().map_err(|_| AddressError::Host)?;
    let name = authority.host().trim_start_matches('[').trim_end_matches(']');
    let has_port = authority.as_str().len() > authority.host().len();
    let port = if has_port { authority.port_u16().ok_or(AddressError::Host)? } else { default };
    if name.is_empty() || name.contains(',') { Err(AddressError::Host) } else { Ok((name.to_owned(), port)) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn address_names_servers_user_and_database() {
        let rows = [
            ("redis://cache", "false  cache 6379 None 0"),
            ("redis://limits@cache:7000/3", "false limits cache 7000 None 3"),
            ("rediss://[::1]:7000/", "true  ::1 7000 None 0"),
            ("redis+sentinel://a,b:1/main", "false  a 26379 b 1 Some(\"main\") 0"),
            ("rediss+sentinel://u@a/main/2", "true u a 26379 Some(\"main\") 2"),
        ];
        for (text, expected) in rows {
            let StoreAddress { is_tls, user, hosts, service, database, .. } = text.parse().unwrap();
            let hosts: Vec<_> = hosts.iter().map(|(host, port)| format!("{host} {port}")).collect();
            assert_eq!(format!("{is_tls} {user} {} {service:?} {database}", hosts.join(" ")), expected, "{text}");
        }
    }

    #[test]
    fn address_with_a_fault_names_it() {
        let rows = [
            ("cache:6379", AddressError::Scheme),
            ("http://cache", AddressError::Scheme),
            ("redis://user:secret@cache", AddressError::Password),
            ("redis://:secret@cache", AddressError::Password),
            ("redis://:ab/secret@cache", AddressError::Password),
            ("redis://user:1234/secret@cache", AddressError::Password),
            ("redis+sentinel://user:ab/secret@cache/main", AddressError::Password),
            ("redis://cache/secret@x", AddressError::Database),
            ("redis://", AddressError::Host),
            ("redis://a,b", AddressError::Host),
            ("redis://cache:70000", AddressError::Host),
            ("redis+sentinel://a,/main", AddressError::Host),
            ("redis+sentinel://a", AddressError::Service),
            ("redis+sentinel://a//2", AddressError::Service),
            ("redis://cache/x", AddressError::Database),
            ("redis://cache/-1", AddressError::Database),
        ];
        for (text, expected) in rows {
            let error = text.parse::<StoreAddress>().unwrap_err();
            assert!(!error.to_string().contains("secret"));
            assert_eq!(error, expected, "{text}");
        }
    }
}
