use portcullis_harness::Result;
use portcullis_harness::certs::{Ca, CertSpec, Identity};

use crate::IdentityMode;

/// The name of the gateway's certificate as an authenticating proxy.
pub(crate) const FRONT_PROXY: &str = "front-proxy";

/// The people of the lab, by certificate.
pub(crate) struct Users {
    pub(crate) gateway: Identity,
    pub(crate) alice: Identity,
    pub(crate) bob: Identity,
    pub(crate) admin: Identity,
}

impl Users {
    /// alice of the group dev, bob of none, an administrator, and the gateway itself.
    pub(crate) fn new(client_ca: &Ca, front_proxies: &Ca, identity: IdentityMode) -> Result<Self> {
        let user = |name: &str, groups: &[&str]| client_ca.issue(&CertSpec::client(name, groups.iter().copied()));
        Ok(Users {
            gateway: match identity {
                IdentityMode::Impersonate => user("portcullis", &[])?,
                IdentityMode::RequestHeader => front_proxies.issue(&CertSpec::client(FRONT_PROXY, [""; 0]))?,
            },
            alice: user("alice", &["dev"])?,
            bob: user("bob", &[])?,
            admin: user("admin", &["system:masters"])?,
        })
    }
}
