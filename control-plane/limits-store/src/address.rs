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
    #[error("has no host and port in {0:?}")]
    Host(String),
    /// Sentinels need the name of what they watch.
    #[error("has sentinels, but not the name of the service that they watch: redis+sentinel://HOST/SERVICE")]
    Service,
    /// This is no number.
    #[error("has {0:?} in the place of the number of a database")]
    Database(String),
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
        let (authority, path) = rest.split_once('/').unwrap_or((rest, ""));
        let (user, hosts) = authority.rsplit_once('@').unwrap_or(("", authority));
        if user.contains(':') {
            return Err(AddressError::Password);
        }
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
            database: number.ok_or_else(|| AddressError::Database(database.to_owned()))?,
            text: text.to_owned(),
        })
    }
}

impl fmt::Display for StoreAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

fn host(text: &str, default: u16) -> Result<(String, u16), AddressError> {
    let failed = || AddressError::Host(text.to_owned());
    let authority: Authority = text.parse().map_err(|_| failed())?;
    let name = authority.host().trim_start_matches('[').trim_end_matches(']');
    let has_port = authority.as_str().len() > authority.host().len();
    let port = if has_port { authority.port_u16().ok_or_else(failed)? } else { default };
    if name.is_empty() || name.contains(',') { Err(failed()) } else { Ok((name.to_owned(), port)) }
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
            ("redis://", AddressError::Host(String::new())),
            ("redis://a,b", AddressError::Host("a,b".to_owned())),
            ("redis://cache:70000", AddressError::Host("cache:70000".to_owned())),
            ("redis+sentinel://a,/main", AddressError::Host(String::new())),
            ("redis+sentinel://a", AddressError::Service),
            ("redis+sentinel://a//2", AddressError::Service),
            ("redis://cache/x", AddressError::Database("x".to_owned())),
            ("redis://cache/-1", AddressError::Database("-1".to_owned())),
        ];
        for (text, expected) in rows {
            let error = text.parse::<StoreAddress>().unwrap_err();
            assert!(!error.to_string().contains("secret"));
            assert_eq!(error, expected, "{text}");
        }
    }
}
