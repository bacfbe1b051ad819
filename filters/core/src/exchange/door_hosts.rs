use portcullis_filter_config::ClusterConfig;

use crate::host_names::{AllowedHosts, host_of, is_ip};
use crate::stream_origin::{RequestedHost, StreamOrigin};

/// The host names of a variant at a listener.
#[derive(Debug, Default)]
pub(super) struct DoorHosts {
    listener: Box<str>,
    own: AllowedHosts,
    /// Names below its wildcards that are not its own.
    narrower: AllowedHosts,
}

impl DoorHosts {
    /// Those of a configuration.
    pub(super) fn of(config: &ClusterConfig) -> Self {
        let names = |list: &[String]| AllowedHosts::new(list.iter().map(String::as_str));
        DoorHosts {
            listener: config.listener.as_str().into(),
            own: names(&config.authorities),
            narrower: names(&config.narrower_authorities),
        }
    }

    /// Whether a running request may be one for these names: it came by the listener, and the closest name that covers its host is one
    /// of them. The listener of a configuration of before these had one may be each, and at such a one a host that is not known, too.
    pub(super) fn may_lead(&self, origin: &StreamOrigin) -> bool {
        let is_known = !self.listener.is_empty() && !origin.listener.is_empty();
        let is_here = !is_known || *self.listener == *origin.listener;
        // Without a server name a proxy finds no chain but that of all names, which no route of a Gateway has.
        is_here && self.cover(&origin.host).unwrap_or(!is_known || self.own.cover_all())
    }

    /// Whether a request is for one of these names, by its authority and its listener: an address as authority, or a listener that is not
    /// known, says nothing.
    pub(super) fn owns(&self, origin: &StreamOrigin) -> bool {
        let is_name = |authority: &[u8]| host_of(authority).is_some_and(|host| !is_ip(host));
        let has_name = matches!(&origin.host, RequestedHost::Authority(authority) if is_name(authority));
        let is_here = !self.listener.is_empty() && *self.listener == *origin.listener;
        has_name && is_here && self.cover(&origin.host).unwrap_or(false)
    }

    /// Whether these are the closest names for a host. `None` if it is an address.
    fn cover(&self, host: &RequestedHost) -> Option<bool> {
        let (own, narrower) = match host {
            RequestedHost::ServerName(name) => {
                (self.own.cover_server_name(name), self.narrower.cover_server_name(name))
            }
            RequestedHost::Authority(authority) => match host_of(authority) {
                Some(host) if !is_ip(host) => (self.own.cover(host), self.narrower.cover(host)),
                _ => return None,
            },
        };
        Some(own.is_some() && own >= narrower)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::request::Client;
    use crate::stream_origin::Impersonated;

    fn hosts(listener: &str, own: &[&str], narrower: &[&str]) -> DoorHosts {
        let names = |list: &[&str]| AllowedHosts::new(list.iter().copied());
        DoorHosts { listener: listener.into(), own: names(own), narrower: names(narrower) }
    }

    fn at(listener: &str, host: RequestedHost) -> StreamOrigin {
        StreamOrigin {
            method: (*b"GET").into(),
            path: (*b"/").into(),
            host,
            listener: listener.into(),
            address: None,
            user_agent: Box::default(),
            client: Client::Anonymous,
            acting: Client::Anonymous,
            impersonated: Impersonated::No,
        }
    }

    fn authority(text: &str) -> RequestedHost {
        RequestedHost::Authority(text.as_bytes().into())
    }

    fn server_name(text: &str) -> RequestedHost {
        RequestedHost::ServerName(text.as_bytes().into())
    }

    #[test]
    fn running_request_is_for_the_closest_name() {
        let hosts =
            hosts("https", &["prod.test", "*.wide.test", "*.own.deep.wide.test"], &["x.wide.test", "*.deep.wide.test"]);
        // (host, of a request's authority, of a connection's server name)
        let table = [
            ("PROD.test", true, true),
            ("other.test", false, false),
            ("a.Wide.test", true, true),
            ("x.wide.test", false, false),
            ("X.wide.TEST", false, false),
            // A wildcard covers one label of an authority, and any number of a server name.
            ("a.b.wide.test", false, true),
            ("a.deep.wide.test", false, false),
            ("deep.wide.test", true, true),
            ("a.own.deep.wide.test", true, true),
            ("wide.test", false, false),
            (".wide.test", false, false),
            // Unlike an authority a server name has no form: a proxy finds its filter chain by its end.
            ("x:y.wide.test", false, true),
            ("[x.wide.test", false, true),
            ("x:y.other.test", false, false),
            ("10.0.0.1", false, false),
        ];
        for (name, by_authority, by_server_name) in table {
            assert_eq!(hosts.may_lead(&at("https", authority(name))), by_authority, "authority {name}");
            assert_eq!(hosts.may_lead(&at("https", server_name(name))), by_server_name, "server name {name}");
        }
        for (text, expected) in
            [("a.wide.test:6443", true), ("x.wide.test.:443", false), ("[::1]:443", false), ("", false)]
        {
            assert_eq!(hosts.may_lead(&at("https", authority(text))), expected, "{text}");
        }
    }

    #[test]
    fn running_request_is_for_names_of_its_listener() {
        for (judged, begun, expected) in
            [("a", "a", true), ("a", "b", false), ("", "b", true), ("a", "", true), ("", "", true)]
        {
            let hosts = hosts(judged, &["prod.test"], &[]);
            assert_eq!(hosts.may_lead(&at(begun, authority("prod.test"))), expected, "{judged} {begun}");
            assert!(!hosts.may_lead(&at(begun, authority("other.test"))));
            let by_address = |hosts: DoorHosts| hosts.may_lead(&at(begun, authority("10.0.0.1:443")));
            let is_unknown = judged.is_empty() || begun.is_empty();
            assert_eq!(
                by_address(hosts),
                is_unknown,
                "{judged} {begun}: a chain of all names alone has no server name"
            );
            assert_eq!(by_address(super::tests::hosts(judged, &["*"], &["prod.test"])), expected, "{judged} {begun}");
        }
    }
}
