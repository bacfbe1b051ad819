//! The content of a certificate.

use std::net::IpAddr;
use std::time::Duration;

/// The allowed uses of a certificate; several may be given, none means that the extension is absent, which passes every check
/// of usage.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Usage {
    /// TLS server.
    Server,
    /// TLS client.
    Client,
    /// Anything (anyExtendedKeyUsage).
    Any,
    /// Something that is neither (code signing), to be refused.
    CodeSigning,
}

/// A certificate to issue. Nothing is checked, so that hostile ones can be made too.
#[derive(Debug, Clone)]
pub struct CertSpec {
    /// Common names, in order. Kubernetes takes the last one as user name.
    pub common_names: Vec<Vec<u8>>,
    /// Organizations, in order. Kubernetes takes all as groups.
    pub organizations: Vec<Vec<u8>>,
    /// Values of the attribute 1.3.6.1.4.1.57683.2, Kubernetes' UID; more than one is an error there.
    pub uids: Vec<Vec<u8>>,
    /// DNS names.
    pub dns: Vec<String>,
    /// URIs.
    pub uris: Vec<String>,
    /// IP addresses.
    pub ips: Vec<IpAddr>,
    /// Extended key usages; empty = no such extension.
    pub usages: Vec<Usage>,
    /// Start of validity in seconds from now; negative is the past.
    pub not_before: i64,
    /// End of validity in seconds from now; negative is the past.
    pub not_after: i64,
    /// Serial number, big-endian; `None` = random.
    pub serial: Option<Vec<u8>>,
    /// Whether it may issue certificates itself.
    pub is_ca: bool,
}

impl CertSpec {
    /// A certificate for a common name, valid from an hour ago for 90 days, for no particular usage.
    pub fn new(cn: impl AsRef<[u8]>) -> Self {
        Self {
            common_names: vec![cn.as_ref().to_owned()],
            organizations: Vec::new(),
            uids: Vec::new(),
            dns: Vec::new(),
            uris: Vec::new(),
            ips: Vec::new(),
            usages: Vec::new(),
            not_before: -3600,
            not_after: 90 * 86_400,
            serial: None,
            is_ca: false,
        }
    }

    /// A user of Kubernetes: client usage, groups in order.
    pub fn client<G: AsRef<[u8]>>(user: impl AsRef<[u8]>, groups: impl IntoIterator<Item = G>) -> Self {
        let organizations = groups.into_iter().map(|group| group.as_ref().to_owned()).collect();
        Self { organizations, usages: vec![Usage::Client], ..Self::new(user) }
    }

    /// A server with DNS names; 127.0.0.1, ::1 and localhost are always included.
    pub fn server<D: Into<String>>(cn: &str, dns: impl IntoIterator<Item = D>) -> Self {
        let local = [IpAddr::from([127, 0, 0, 1]), IpAddr::from([0, 0, 0, 0, 0, 0, 0, 1])];
        let names = dns.into_iter().map(Into::into).chain(["localhost".to_owned()]).collect();
        Self { dns: names, ips: local.to_vec(), usages: vec![Usage::Server], ..Self::new(cn) }
    }

    /// Another common name, after those that are there.
    #[must_use]
    pub fn common_name(mut self, cn: impl AsRef<[u8]>) -> Self {
        self.common_names.push(cn.as_ref().to_owned());
        self
    }

    /// Kubernetes' UID attribute.
    #[must_use]
    pub fn uid(mut self, uid: impl AsRef<[u8]>) -> Self {
        self.uids.push(uid.as_ref().to_owned());
        self
    }

    /// Replaces the usages; none = no such extension.
    #[must_use]
    pub fn usages(mut self, usages: impl IntoIterator<Item = Usage>) -> Self {
        self.usages = usages.into_iter().collect();
        self
    }

    /// Ended an hour ago.
    #[must_use]
    pub fn expired(self) -> Self {
        Self { not_before: -7200, not_after: -3600, ..self }
    }

    /// Starts in an hour.
    #[must_use]
    pub fn not_yet_valid(self) -> Self {
        Self { not_before: 3600, not_after: 7200, ..self }
    }

    /// Ends this long from now, in whole seconds.
    #[must_use]
    pub fn valid_for(self, time: Duration) -> Self {
        Self { not_after: i64::try_from(time.as_secs()).unwrap_or(i64::MAX), ..self }
    }

    /// The serial number.
    #[must_use]
    pub fn serial_number(self, serial: u64) -> Self {
        Self { serial: Some(serial.to_be_bytes().to_vec()), ..self }
    }
}
