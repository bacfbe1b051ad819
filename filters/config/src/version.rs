use crate::{ClusterConfig, Dispatch, FilterConfig, PeerSource, UpstreamIdentity};

/// The version of this configuration's format. A filter refuses any version that it does not know, so that a rule that
/// it would not understand is never dropped in silence. It grows with every field that an older filter does not have.
///
/// - 1: up to `logRefused`.
/// - 2: `peerSource` and `reservedHeaders` of the listener, `servers`, `sessionLimitSeconds`, `protected`, `requestInfo`, the
///   policies `Everything` and the identities `RequestHeader` and `Unchanged` of a cluster, `user` of its reviews.
pub const CONFIG_VERSION: u32 = 2;

/// The version before, which the control plane writes for filters that read no newer one.
pub const PREVIOUS_VERSION: u32 = 1;

/// The key in the metadata of an Envoy's node under which stands the newest version that its filter reads.
pub const NODE_METADATA: &str = "portcullis_config_version";

/// The key in the metadata of an Envoy's node under which stands which build of the filter it runs: [`NODE_FILTER_MODULE`],
/// which is the default, or [`NODE_FILTER_WASM`].
pub const NODE_FILTER: &str = "portcullis_filter";

/// `libportcullis.so`.
pub const NODE_FILTER_MODULE: &str = "module";

/// `portcullis.wasm`.
pub const NODE_FILTER_WASM: &str = "wasm";

/// Whether this filter reads a version.
pub const fn is_readable(version: u32) -> bool {
    // For tests of a new control plane with the filter of the release before.
    if cfg!(feature = "previous-version") {
        return version == PREVIOUS_VERSION;
    }
    version == CONFIG_VERSION || version == PREVIOUS_VERSION
}

/// Something cannot be said in the previous version, and to leave it out would do harm.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Inexpressible(
    /// What.
    pub &'static str,
);

impl FilterConfig {
    /// The same in the previous version's words.
    ///
    /// # Errors
    /// [`Inexpressible`]: a filter that looks for certificates in another place finds none, and takes everybody for
    /// anonymous; one that does not know a header name lets clients write it.
    pub fn into_previous(self) -> Result<Self, Inexpressible> {
        // Taken apart, so that nobody adds a field without deciding about it here.
        let Self { version: _, instance, peer_source, reserved_headers } = self;
        if !reserved_headers.is_empty() {
            return Err(Inexpressible("header names that clients may not send"));
        }
        match peer_source {
            PeerSource::Validator => Ok(Self { version: PREVIOUS_VERSION, instance, peer_source, reserved_headers }),
            PeerSource::ForwardedClientCert => Err(Inexpressible("certificates by x-forwarded-client-cert")),
            PeerSource::Connection => Err(Inexpressible("certificates by the connection's filter state")),
        }
    }

    /// Whether it holds nothing that its version does not have.
    pub fn is_of_its_version(&self) -> bool {
        self.version != PREVIOUS_VERSION || self.clone().into_previous().as_ref() == Ok(self)
    }
}

impl ClusterConfig {
    /// The same in the previous version's words. What it loses opens nothing and lets nobody in: streams on servers that
    /// were removed, and sessions however long, run on until they end by themselves.
    ///
    /// # Errors
    /// [`Inexpressible`]: another way of telling the user to the upstream, identities that would not be protected, and what
    /// somebody's own routes would not find.
    pub fn into_previous(self) -> Result<Self, Inexpressible> {
        // Taken apart, so that nobody adds a field without deciding about it here.
        let Self {
            version: _,
            name,
            identity,
            authorities,
            client_ca,
            deny_all_requests,
            close_connections,
            anonymous,
            audit_attribution,
            reviews,
            upstream_identity,
            protected,
            flow_control_schemas,
            log_refused,
            servers: _,
            session_limit_seconds: _,
            request_info,
            policies,
        } = self;
        match &upstream_identity {
            UpstreamIdentity::Impersonate => {}
            UpstreamIdentity::RequestHeader(_) => return Err(Inexpressible("the identity mode RequestHeader")),
            UpstreamIdentity::Unchanged => return Err(Inexpressible("the identity mode Unchanged")),
        }
        if reviews.as_ref().is_some_and(|reviews| reviews.user.is_some()) {
            return Err(Inexpressible("the user in whose name reviews are asked"));
        }
        if protected.is_some() {
            return Err(Inexpressible("protected identities"));
        }
        if request_info.is_some() {
            return Err(Inexpressible("what a request asks for, for one's own routes"));
        }
        if policies == Dispatch::Everything {
            return Err(Inexpressible("the policies Everything"));
        }
        Ok(Self {
            version: PREVIOUS_VERSION,
            name,
            identity,
            authorities,
            client_ca,
            deny_all_requests,
            close_connections,
            anonymous,
            audit_attribution,
            reviews,
            upstream_identity,
            protected: None,
            flow_control_schemas,
            log_refused,
            servers: None,
            session_limit_seconds: None,
            request_info: None,
            policies,
        })
    }

    /// Whether it holds nothing that its version does not have.
    pub fn is_of_its_version(&self) -> bool {
        self.version != PREVIOUS_VERSION || self.clone().into_previous().as_ref() == Ok(self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_previous_version_is_what_a_filter_of_that_version_reads() {
        let text = r#"{"version": 2, "name": "i/-/a", "identity": "x", "authorities": ["a"], "anonymous": true,
            "upstreamIdentity": "Impersonate", "servers": {"names": ["s"], "drainSeconds": 5},
            "sessionLimitSeconds": 9, "policies": []}"#;
        let newest: ClusterConfig = serde_json::from_str(text).unwrap();
        assert!(newest.is_of_its_version());
        assert!(!ClusterConfig { version: PREVIOUS_VERSION, ..newest.clone() }.is_of_its_version());
        let previous = newest.into_previous().unwrap();
        assert!(previous.is_of_its_version());
        assert!(!serde_json::to_string(&previous).unwrap().contains("servers"));
    }

    #[test]
    fn what_would_do_harm_if_it_was_left_out_is_not_expressible() {
        for rest in [
            r#""upstreamIdentity": {"RequestHeader": {}}, "policies": []"#,
            r#""upstreamIdentity": "Unchanged", "policies": []"#,
            r#""upstreamIdentity": "Impersonate", "policies": "Everything""#,
            r#""upstreamIdentity": "Impersonate", "policies": [], "requestInfo": {}"#,
        ] {
            let text = format!(r#"{{"version": 2, "name": "i/-/a", "authorities": ["a"], {rest}}}"#);
            let newest: ClusterConfig = serde_json::from_str(&text).unwrap();
            assert!(newest.into_previous().is_err(), "{rest}");
        }
        let newest = FilterConfig { reserved_headers: vec!["x-user".to_owned()], ..FilterConfig::new("i") };
        assert!(newest.into_previous().is_err());
    }

    #[test]
    fn a_certificate_that_would_not_be_found_is_not_expressible() {
        let newest = FilterConfig::new("i");
        assert_eq!(newest.clone().into_previous().unwrap().version, PREVIOUS_VERSION);
        let forwarded = FilterConfig { peer_source: PeerSource::ForwardedClientCert, ..newest };
        assert!(forwarded.clone().into_previous().is_err());
        assert!(!FilterConfig { version: PREVIOUS_VERSION, ..forwarded }.is_of_its_version());
    }
}
