use std::collections::BTreeSet;
use std::net::IpAddr;

/// The host names under which the pages are served.
///
/// A page in a browser can make its own host name resolve to our address, and then read our answers, because to the browser
/// they are the page's own (DNS rebinding). It cannot make the browser send another name. Requests are therefore answered for
/// IP addresses, for `localhost`, and for the names that the operator gave.
#[derive(Debug, Default)]
pub(super) struct AllowedHosts {
    names: BTreeSet<String>,
}

impl AllowedHosts {
    pub(super) fn new(names: &[String]) -> Self {
        Self { names: names.iter().map(|name| name.trim_end_matches('.').to_ascii_lowercase()).collect() }
    }

    /// Whether a request for this host, `name`, `name:port` or `[v6]:port`, is answered. One without a host is not.
    pub(super) fn allow(&self, host: Option<&str>) -> bool {
        let Some(name) = host.and_then(without_port) else { return false };
        let name = name.trim_end_matches('.').to_ascii_lowercase();
        name.parse::<IpAddr>().is_ok() || name == "localhost" || self.names.contains(&name)
    }
}

fn without_port(host: &str) -> Option<&str> {
    if let Some(rest) = host.strip_prefix('[') {
        let (address, port) = rest.split_once(']')?;
        return (port.is_empty() || port.strip_prefix(':').is_some_and(is_port)).then_some(address);
    }
    match host.split_once(':') {
        None => Some(host),
        Some((name, port)) => is_port(port).then_some(name),
    }
}

fn is_port(text: &str) -> bool {
    text.parse::<u16>().is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_localhost_and_names_that_were_given_are_answered() {
        let hosts = AllowedHosts::new(&["Portcullis.kube-system.svc".to_owned()]);
        for host in [
            "127.0.0.1",
            "127.0.0.1:9080",
            "10.1.2.3:80",
            "[::1]:9080",
            "[::1]",
            "localhost:9080",
            "LOCALHOST.",
            "portcullis.kube-system.svc:9080",
        ] {
            assert!(hosts.allow(Some(host)), "{host}");
        }
        for host in
            ["", "attacker.example", "attacker.example:9080", "127.0.0.1.attacker.example", "localhost.attacker"]
        {
            assert!(!hosts.allow(Some(host)), "{host}");
        }
        for host in ["127.0.0.1:x", "[::1", "[::1]x", "a@127.0.0.1", "127.0.0.1:80:80", "portcullis"] {
            assert!(!hosts.allow(Some(host)), "{host}");
        }
        assert!(!hosts.allow(None));
    }
}
